package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxRestarts is how often a list whose continuation expired (410) begins again.
	maxRestarts = 5
	// maxRetries is how often one page is asked for again.
	maxRetries = 3
)

// listing reads the objects of one resource, in one namespace or the whole
// cluster.
type listing struct {
	resource  resource
	namespace string
	// selectors are lists of their own, one after another.
	selectors []string

	mu sync.Mutex
	// taken holds the key of every object that was taken up, and whether it
	// came into the archive. A list that begins again, a page that is asked
	// for again and a second selector show objects twice.
	taken map[string]bool
}

func newListing(r resource, namespace string, selectors []string) *listing {
	return &listing{resource: r, namespace: namespace, selectors: selectors, taken: map[string]bool{}}
}

// String names the listing in messages.
func (l *listing) String() string {
	if l.namespace == "" {
		return l.resource.String()
	}
	return l.resource.String() + " in namespace " + l.namespace
}

// take says whether the object of that key is met for the first time.
func (l *listing) take(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.taken[key]; again {
		return false
	}
	l.taken[key] = false
	return true
}

func (l *listing) written(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken[key] = true
}

// sink receives what a listing reads.
type sink interface {
	// about tells of a page's metadata, item of one object, whose bytes are
	// good until the call returns.
	about(page)
	item(raw []byte) error
}

// read hands every object of the listing to the sink. An object may come more
// than once.
func (l *listing) read(ctx context.Context, c *Cluster, to sink) error {
	for _, selector := range l.selectors {
		if err := l.readAll(ctx, c, selector, to); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads one list to its end. A continuation that has expired begins it
// again; a page that fails for a passing reason is asked for again.
func (l *listing) readAll(ctx context.Context, c *Cluster, selector string, to sink) error {
	token, restarts, retries := "", 0, 0
	for {
		p, err := c.readPage(ctx, l, selector, token, to)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && p.next == "":
			return nil
		case err == nil:
			token, retries = p.next, 0
		case token != "" && isExpired(err) && restarts < maxRestarts:
			token, retries = "", 0
			restarts++
		case isPassing(err) && retries < maxRetries:
			if err := pause(ctx, c.options.RetryWait<<retries); err != nil {
				return err
			}
			retries++
		default:
			return err
		}
	}
}

// readPage asks for one page and hands its objects on while they arrive.
func (c *Cluster) readPage(ctx context.Context, l *listing, selector, token string, to sink) (page, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := &silenceReader{timeout: c.options.RequestTimeout, cancel: cancel}
	request := c.rest.Get().AbsPath(l.resource.url(l.namespace)).
		SetHeader("Accept", "application/json").
		Param("limit", strconv.Itoa(c.options.PageSize))
	if selector != "" {
		request.Param("labelSelector", selector)
	}
	if token != "" {
		request.Param("continue", token)
	}
	done := silence.begin()
	body, err := request.Stream(ctx)
	done()
	if err != nil && statusOf(err) > 0 {
		return page{}, err
	}
	if err != nil {
		return page{}, unanswered(causeOf(ctx, err))
	}
	silence.source = body
	p, err := readList(silence, to.about, to.item)
	if err == nil {
		// A connection is used again only if its answer was read to the end.
		_, err = io.Copy(io.Discard, silence)
	}
	_ = body.Close() // what it could say was said by the reads
	return p, causeOf(ctx, err)
}

// causeOf prefers why a context ended to the error that this made.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// errNoAnswer tells that there is no API server to talk to from one that
// answers badly: the first concerns the whole run, the second one list.
var errNoAnswer = errors.New("the API server does not answer")

func unanswered(err error) error {
	if errors.Is(err, errNoAnswer) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}

// isPassing errors may be gone at the next try: no answer, one that breaks off,
// and those of a server in trouble.
func isPassing(err error) bool {
	if code := statusOf(err); code > 0 {
		return code >= 500 || code == http.StatusTooManyRequests
	}
	return !errors.Is(err, errBadJSON) && !errors.Is(err, errSilence)
}

// statusOf is the HTTP status that an API server answered with, 0 for an error
// that is no answer.
func statusOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errSilence is waited for once: whoever waits again would wait as long.
var errSilence = fmt.Errorf("%w: silence", errNoAnswer)

// silenceReader ends a request whose server sends nothing for too long. Time
// that the reader itself takes between two reads does not count.
type silenceReader struct {
	source  io.Reader
	timeout time.Duration
	cancel  context.CancelCauseFunc
}

func (s *silenceReader) begin() func() {
	timer := time.AfterFunc(s.timeout, func() {
		s.cancel(fmt.Errorf("%w for %s", errSilence, s.timeout))
	})
	return func() { timer.Stop() }
}

func (s *silenceReader) Read(p []byte) (int, error) {
	defer s.begin()()
	return s.source.Read(p)
}
