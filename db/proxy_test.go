package db_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and Postgres, and can go away and come back at
// the same address.
type proxy struct {
	tb      testing.TB
	url     string // of the same database, through the proxy
	target  string
	address string

	all sync.WaitGroup

	mu       sync.Mutex
	away     bool
	listener net.Listener
	conns    []net.Conn
}

func startProxy(tb testing.TB, databaseURL string) *proxy {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, target: u.Host, address: "127.0.0.1:0"}
	p.back()
	u.Host = p.address
	p.url = u.String()
	tb.Cleanup(p.cut)
	return p
}

// back accepts connections again.
func (p *proxy) back() {
	p.tb.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.address = l.Addr().String()
	p.mu.Lock()
	p.listener, p.away = l, false
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.target)
			if err != nil {
				_ = client.Close()
				continue
			}
			if !p.keep(client, server) {
				continue
			}
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				p.all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
}

// keep remembers connections for cut; where that was already, it breaks them.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

// cut breaks every connection and accepts no new one.
func (p *proxy) cut() {
	p.mu.Lock()
	p.away = true
	_ = p.listener.Close()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.all.Wait()
}
