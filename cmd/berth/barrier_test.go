package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// barrier stands before a server and lets every request through but those that
// a test holds.
type barrier struct {
	server http.Handler

	mu   sync.Mutex
	held []*held
	// refused answers everything with 503.
	refused bool
}

// refuse makes the server answer nothing but 503 until the function that it
// returns is called.
func (b *barrier) refuse() (end func()) {
	b.setRefused(true)
	return func() { b.setRefused(false) }
}

func (b *barrier) setRefused(refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = refused
}

func (b *barrier) isRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// held is a request that waits at a barrier.
type held struct {
	t        *testing.T
	matches  func(*http.Request) bool
	reached  chan struct{}
	released chan struct{}
	answered chan struct{}
	once     sync.Once
}

// hold makes the next request that matches wait; those after it pass.
func (b *barrier) hold(t *testing.T, matches func(*http.Request) bool) *held {
	h := &held{t: t, matches: matches, reached: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{})}
	b.mu.Lock()
	b.held = append(b.held, h)
	b.mu.Unlock()
	t.Cleanup(h.release)
	return h
}

// release lets the request go on.
func (h *held) release() { h.once.Do(func() { close(h.released) }) }

// await waits until the request has come.
func (h *held) await() { h.receive(h.reached, "come") }

// awaitAnswer waits until the server has answered the released request.
func (h *held) awaitAnswer() { h.receive(h.answered, "end") }

func (h *held) receive(from <-chan struct{}, what string) {
	h.t.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		h.t.Fatalf("the request to hold does not %s", what)
	}
}

func (b *barrier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.isRefused() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if h := b.take(r); h != nil {
		defer close(h.answered)
		// It is here whole when it waits, so that it needs its sender no more.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		close(h.reached)
		select {
		case <-h.released:
		case <-r.Context().Done():
			return
		}
	}
	b.server.ServeHTTP(w, r)
}

func (b *barrier) take(r *http.Request) *held {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, h := range b.held {
		if h.matches(r) {
			b.held = append(b.held[:i:i], b.held[i+1:]...)
			return h
		}
	}
	return nil
}
