package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxRestarts is how often a list whose continuation expired (410) begins again.
	maxRestarts = 5
	// maxRetries is how often one page, or one object, is asked for again.
	maxRetries = 3
	// maxRetryAfter bounds what a server may ask to wait for.
	maxRetryAfter = time.Minute
)

// listing reads the objects of one resource, in one namespace or the whole
// cluster.
type listing struct {
	resource  resource
	namespace string
	// selectors are lists of their own, one after another.
	selectors []string
	ledger    *ledger
	// chosen says that what is listed still has to match the selectors.
	chosen bool
	// only, if set, is asked which of the objects are taken up.
	only func(h head, raw []byte) bool
}

func newListing(r resource, namespace string, selectors []string, in *ledgers) *listing {
	return &listing{resource: r, namespace: namespace, selectors: selectors, ledger: in.ledger(r)}
}

// String names the listing in messages.
func (l *listing) String() string {
	if l.namespace == "" {
		return l.resource.String()
	}
	return l.resource.String() + " in namespace " + l.namespace
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
// again, and after maxRestarts as one whole answer, which needs none.
func (l *listing) readAll(ctx context.Context, c *Cluster, selector string, to sink) error {
	at := position{limit: c.options.PageSize}
	for restarts := 0; ; {
		var p page
		err := c.retrying(ctx, func() (err error) {
			p, err = c.readPage(ctx, l, selector, at, to)
			return err
		})
		switch {
		case err == nil && p.next == "":
			return nil
		case err == nil:
			at.token = p.next
		case at.token != "" && isExpired(err):
			at.token = ""
			if restarts++; restarts > maxRestarts {
				at.limit = 0
			}
		default:
			return err
		}
	}
}

// position is where a list goes on.
type position struct {
	// token continues a list; empty begins it.
	token string
	// limit is how many objects a page has; 0 asks for all at once.
	limit int
}

// retrying asks again, after a pause that doubles, or as long as the server asks
// for, while what fails may pass.
func (c *Cluster) retrying(ctx context.Context, ask func() error) error {
	for retries := 0; ; retries++ {
		err := ask()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil, !isPassing(err), retries == maxRetries:
			return err
		}
		if err := pause(ctx, max(c.options.RetryWait<<retries, retryAfter(err))); err != nil {
			return err
		}
	}
}

// retryAfter is how long the server asks to wait (its header Retry-After).
func retryAfter(err error) time.Duration {
	seconds, asked := apierrors.SuggestsClientDelay(err)
	if !asked {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// readPage asks for one page and hands its objects on while they arrive.
func (c *Cluster) readPage(ctx context.Context, l *listing, selector string, at position, to sink) (page, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := &silenceReader{timeout: c.options.RequestTimeout, cancel: cancel}
	request := c.rest.Get().AbsPath(l.resource.url(l.namespace)).
		SetHeader("Accept", "application/json")
	if at.limit > 0 {
		request.Param("limit", strconv.Itoa(at.limit))
	}
	if selector != "" {
		request.Param("labelSelector", selector)
	}
	if at.token != "" {
		request.Param("continue", at.token)
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
