package main

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// link is a way to a server that a test can cut or freeze.
type link struct {
	t       *testing.T
	address string
	target  string

	mu       sync.Mutex
	listener net.Listener // nil while the link is cut
	ends     map[net.Conn]bool
	// frozen is closed when the link is not frozen.
	frozen chan struct{}
}

// newLink makes a way to the server of a URL and gives the URL that leads along
// it.
func newLink(t *testing.T, direct string) (l *link, along string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	l = &link{t: t, target: u.Host, ends: map[net.Conn]bool{}, frozen: make(chan struct{})}
	close(l.frozen)
	l.listen("127.0.0.1:0")
	t.Cleanup(l.cut)
	u.Host = l.address
	return l, u.String()
}

func (l *link) listen(address string) {
	l.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener, l.address = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(client)
		}
	}()
}

// cut ends every connection and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener = nil
	for end := range l.ends {
		_ = end.Close()
	}
	clear(l.ends)
}

// mend takes connections again.
func (l *link) mend() { l.listen(l.address) }

// freeze lets nothing more through in either direction until thaw: nobody is
// told that the other side is gone.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.frozen)
}

func (l *link) carry(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l.mu.Lock()
	if l.listener == nil {
		_, _ = client.Close(), server.Close()
	} else {
		l.ends[client], l.ends[server] = true, true
	}
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client) })
	both.Go(func() { l.copy(client, server) })
	both.Wait()
	l.mu.Lock()
	delete(l.ends, client)
	delete(l.ends, server)
	l.mu.Unlock()
}

// copy carries one direction and ends both when it ends.
func (l *link) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		frozen := l.frozen
		l.mu.Unlock()
		<-frozen
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
