package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// readAhead is how much of an answer is held at a time, at least.
	readAhead = 64 << 10
	// keptBuffer is the longest buffer that is kept for the next page.
	keptBuffer = 1 << 20
	// maxObject bounds one object; etcd takes 1.5 MiB, an aggregated API may more.
	maxObject = 64 << 20
)

// page is what the answer to a list says of itself.
type page struct {
	// next asks for the page that follows; empty on the last one.
	next string
	// remaining is how many objects follow after this page, where the server
	// says so, else 0.
	remaining int
}

var listReaders = sync.Pool{New: func() any { return &listReader{buf: make([]byte, readAhead)} }}

// listReader takes the answer to a list apart while it arrives: what it holds
// is one object, however long the page is.
type listReader struct {
	source io.Reader
	buf    []byte
	// buf[pos:end] has been read and not been used.
	pos, end int
	eof      bool
}

// readList calls item with each object of the list that source holds. The
// slice is good until item returns. about is called when the list's own
// metadata arrives, which is before the items where the server writes them so.
func readList(source io.Reader, about func(page), item func(raw []byte) error) (page, error) {
	r := listReaders.Get().(*listReader)
	*r = listReader{source: source, buf: r.buf}
	defer r.free()
	var p page
	hasItems := false
	err := r.object(func(key string) error {
		switch key {
		case "metadata":
			raw, err := r.value()
			if err != nil {
				return err
			}
			if p, err = pageOf(raw); err != nil {
				return err
			}
			about(p)
			return nil
		case "items":
			hasItems = true
			return r.array(item)
		}
		_, err := r.value()
		return err
	})
	if err == nil && !hasItems {
		err = errors.New("the answer is no list")
	}
	return p, err
}

// free gives the reader back for its memory to be used again, unless one huge
// object made it long.
func (r *listReader) free() {
	r.source = nil
	if len(r.buf) <= keptBuffer {
		listReaders.Put(r)
	}
}

func pageOf(raw []byte) (page, error) {
	var metadata struct {
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount"`
	}
	if err := json.Unmarshal(raw, &metadata); err != nil {
		return page{}, fmt.Errorf("a list's metadata: %w", err)
	}
	p := page{next: metadata.Continue}
	if metadata.RemainingItemCount != nil {
		p.remaining = int(*metadata.RemainingItemCount)
	}
	return p, nil
}

// object reads an object; field must read the value of each key.
func (r *listReader) object(field func(key string) error) error {
	if err := r.expect('{'); err != nil {
		return err
	}
	for {
		c, err := r.peek()
		if err != nil {
			return err
		}
		switch c {
		case '}':
			r.pos++
			return nil
		case ',':
			r.pos++
			continue
		}
		raw, err := r.value()
		if err != nil {
			return err
		}
		key, err := text(raw)
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
	}
}

// array reads an array or null.
func (r *listReader) array(item func(raw []byte) error) error {
	if c, err := r.peek(); err != nil {
		return err
	} else if c == 'n' {
		_, err := r.value()
		return err
	}
	if err := r.expect('['); err != nil {
		return err
	}
	for {
		c, err := r.peek()
		if err != nil {
			return err
		}
		switch c {
		case ']':
			r.pos++
			return nil
		case ',':
			r.pos++
			continue
		}
		raw, err := r.value()
		if err != nil {
			return err
		}
		if err := item(raw); err != nil {
			return err
		}
	}
}

// peek skips white space and shows the next byte.
func (r *listReader) peek() (byte, error) {
	for {
		for ; r.pos < r.end; r.pos++ {
			if !isSpace(r.buf[r.pos]) {
				return r.buf[r.pos], nil
			}
		}
		if err := r.more(); err != nil {
			return 0, err
		}
	}
}

func (r *listReader) expect(c byte) error {
	got, err := r.peek()
	if err != nil {
		return err
	}
	if got != c {
		return fmt.Errorf("%w: %q where %q is expected", errBadJSON, got, c)
	}
	r.pos++
	return nil
}

// value reads one value whole.
func (r *listReader) value() ([]byte, error) {
	if _, err := r.peek(); err != nil {
		return nil, err
	}
	for {
		if end := valueEnd(r.buf[:r.end], r.pos); end > 0 {
			raw := r.buf[r.pos:end]
			r.pos = end
			return raw, nil
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// more reads on until the buffer is full, which doubles where one value fills
// it: so that looking for a value's end again costs no more than reading it.
func (r *listReader) more() error {
	if r.eof {
		return io.ErrUnexpectedEOF
	}
	if r.pos == 0 && r.end == len(r.buf) {
		if len(r.buf) >= maxObject {
			return fmt.Errorf("an object is longer than %d bytes", maxObject)
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	r.end = copy(r.buf, r.buf[r.pos:r.end])
	r.pos = 0
	n, err := io.ReadFull(r.source, r.buf[r.end:])
	r.end += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// Which of the two says nothing here: the list's end is its last brace.
		// A body that breaks off ends without it.
		r.eof = true
		return nil
	}
	return err
}
