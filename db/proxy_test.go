package db_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
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

	// loses says that the next answer to a commit never arrives.
	loses atomic.Bool

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
			p.all.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			p.all.Go(func() {
				p.answer(client, server)
				_ = client.Close()
			})
		}
	})
}

// answer passes on what the server says, up to an answer that is to be lost.
func (p *proxy) answer(client io.Writer, server io.ReadCloser) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if bytes.Contains(buffer[:n], []byte("COMMIT\x00")) && p.loses.CompareAndSwap(true, false) {
			_ = server.Close()
			return
		}
		if _, broken := client.Write(buffer[:n]); err != nil || broken != nil {
			return
		}
	}
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
