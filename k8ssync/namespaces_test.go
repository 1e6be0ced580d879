package k8ssync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/berth-backup/berth"
)

// inventoryRows is a NamespaceStore in memory that can fail.
type inventoryRows struct {
	mu    sync.Mutex
	known map[string]berth.Namespace
	calls []inventoryCall
	// before, if set, is called before each write and can make it fail.
	before func(call inventoryCall) error
}

type inventoryCall struct {
	complete   bool
	namespaces []berth.Namespace
	err        error
}

func (r *inventoryRows) SyncNamespaces(_ context.Context, cluster string, all []berth.Namespace) error {
	return r.write(cluster, inventoryCall{complete: true, namespaces: all})
}

func (r *inventoryRows) ChangeNamespaces(_ context.Context, cluster string, changed []berth.Namespace) error {
	return r.write(cluster, inventoryCall{namespaces: changed})
}

func (r *inventoryRows) write(cluster string, call inventoryCall) error {
	if cluster != "east" {
		call.err = fmt.Errorf("wrong cluster %q", cluster)
	}
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	if before != nil {
		call.err = before(call)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	if call.err != nil {
		return call.err
	}
	if call.complete || r.known == nil {
		r.known = map[string]berth.Namespace{}
	}
	for _, ns := range call.namespaces {
		if ns.Exists {
			r.known[ns.Name] = ns
		} else {
			delete(r.known, ns.Name)
		}
	}
	return nil
}

func (r *inventoryRows) setBefore(before func(inventoryCall) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

func (r *inventoryRows) writes() []inventoryCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// has returns an error unless exactly these namespaces with the prefix are
// known; a name that ends in ! is excluded from backups.
func (r *inventoryRows) has(prefix string, want ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var have []string
	for name, ns := range r.known {
		if suffix, ok := strings.CutPrefix(name, prefix); ok {
			if ns.Excluded {
				suffix += "!"
			}
			have = append(have, suffix)
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		return fmt.Errorf("the rows know %v, want %v", have, want)
	}
	return nil
}

// namespaces changes namespaces of one prefix.
type namespaces struct {
	t      *testing.T
	client dynamic.ResourceInterface
	prefix string
}

func newNamespaces(t *testing.T, client dynamic.Interface) namespaces {
	return namespaces{t: t, client: client.Resource(namespaceResource), prefix: "inv-" + strings.ToLower(rand.Text()[:8]) + "-"}
}

func (n namespaces) make(suffixes ...string) {
	n.t.Helper()
	for _, suffix := range suffixes {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		object.SetName(n.prefix + suffix)
		if _, err := n.client.Create(n.t.Context(), object, metav1.CreateOptions{}); err != nil {
			n.t.Fatal(err)
		}
	}
}

// label sets the exclude label; null takes it away.
func (n namespaces) label(suffix, value string) {
	n.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, berth.LabelExclude, value)
	if _, err := n.client.Patch(n.t.Context(), n.prefix+suffix, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

// terminate begins a deletion, finish ends it as the namespace controller does.
func (n namespaces) terminate(suffix string) {
	n.t.Helper()
	if err := n.client.Delete(n.t.Context(), n.prefix+suffix, metav1.DeleteOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func (n namespaces) finish(suffix string) {
	n.t.Helper()
	object, err := n.client.Get(n.t.Context(), n.prefix+suffix, metav1.GetOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	unstructured.RemoveNestedField(object.Object, "spec", "finalizers")
	if _, err := n.client.Update(n.t.Context(), object, metav1.UpdateOptions{}, "finalize"); err != nil {
		n.t.Fatal(err)
	}
}

func (n namespaces) remove(suffix string) {
	n.t.Helper()
	n.terminate(suffix)
	n.finish(suffix)
}

func newInventory(t *testing.T, config *rest.Config, store NamespaceStore, o InventoryOptions) *Inventory {
	t.Helper()
	o.Cluster = "east"
	o.Gap = time.Millisecond
	o.RetryMin, o.RetryMax = time.Millisecond, 20*time.Millisecond
	if o.Log == nil {
		o.Log = quiet()
	}
	i, err := NewInventory(config, store, o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestInventoryFollowsTheCluster(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	n.make("a", "b")
	rows := &inventoryRows{}
	i := newInventory(t, k.Config, rows, InventoryOptions{})
	start(t, i.Run)

	<-i.Synced()
	if err := rows.has(n.prefix, "a", "b"); err != nil {
		t.Error("after the first list:", err)
	}
	if first := rows.writes()[0]; !first.complete {
		t.Error("the first write is not a complete one")
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"appears", func() { n.make("c") }, []string{"a", "b", "c"}},
		{"labelled", func() { n.label("b", `"true"`) }, []string{"a", "b!", "c"}},
		{"labelled otherwise", func() { n.label("b", `"True"`) }, []string{"a", "b", "c"}},
		{"labelled again", func() { n.label("b", `"true"`) }, []string{"a", "b!", "c"}},
		{"label taken off", func() { n.label("b", `null`) }, []string{"a", "b", "c"}},
		{"being deleted", func() { n.terminate("a"); n.make("d") }, []string{"a", "b", "c", "d"}},
		{"gone", func() { n.finish("a") }, []string{"b", "c", "d"}},
		{"back", func() { n.make("a") }, []string{"a", "b", "c", "d"}},
	} {
		step.do()
		eventually(t, func() error {
			if err := rows.has(n.prefix, step.want...); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			return nil
		})
	}
}

func TestInventoryIsCompleteAfterFailedWrites(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	n.make("a", "b")
	rows := &inventoryRows{}
	i := newInventory(t, k.Config, rows, InventoryOptions{})
	start(t, i.Run)
	<-i.Synced()

	failed := make(chan struct{}, 1)
	rows.setBefore(func(inventoryCall) error {
		select {
		case failed <- struct{}{}:
		default:
		}
		return errors.New("the database is away")
	})
	n.make("c")
	<-failed
	n.remove("a")
	n.label("b", `"true"`)
	<-failed
	rows.setBefore(nil)
	eventually(t, func() error { return rows.has(n.prefix, "b!", "c") })

	calls := rows.writes()
	for j, call := range calls[1:] {
		if calls[j].err != nil && !call.complete {
			t.Errorf("write %d follows a failed one and is not complete", j+1)
		}
	}
}

func TestInventorySyncedMeansWritten(t *testing.T) {
	t.Parallel()
	k, _ := cluster(t)
	var log logged
	rows := &inventoryRows{before: func(inventoryCall) error { return errors.New("the database is away") }}
	i := newInventory(t, k.Config, rows, InventoryOptions{Log: log.logger()})
	start(t, i.Run)
	eventually(t, func() error { return log.says("failures=3") })
	select {
	case <-i.Synced():
		t.Error("synced although nothing was written")
	default:
	}
	rows.setBefore(nil)
	<-i.Synced()
}

func TestInventorySaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	var log logged
	i := newInventory(t, &rest.Config{Host: "http://127.0.0.1:1"}, &inventoryRows{}, InventoryOptions{Log: log.logger()})
	start(t, i.Run)
	eventually(t, func() error { return log.says("namespaces cannot be read") })
	eventually(t, func() error { return log.says("connection refused") })
}

// watches cuts the watches that pass it, and answers nothing while it is away.
type watches struct {
	mu     sync.Mutex
	away   bool
	silent bool
	bodies []*cuttable
	// swallowed counts the reads that a silent connection kept to itself.
	swallowed int
}

// cuttable is the body of a watch.
type cuttable struct {
	io.ReadCloser
	watches *watches
	cut     chan struct{}
	once    sync.Once
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.watches.mu.Lock()
	silent := c.watches.silent
	if silent {
		c.watches.swallowed++
	}
	c.watches.mu.Unlock()
	if silent {
		// What a dead connection does: it says nothing, and no error either.
		<-c.cut
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *cuttable) Close() error {
	c.once.Do(func() { close(c.cut) })
	return c.ReadCloser.Close()
}

func (w *watches) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			w.mu.Lock()
			away := w.away
			w.mu.Unlock()
			if away {
				return nil, errors.New("connection refused")
			}
			response, err := next.RoundTrip(request)
			if err == nil && request.URL.Query().Get("watch") != "" {
				w.mu.Lock()
				defer w.mu.Unlock()
				body := &cuttable{ReadCloser: response.Body, watches: w, cut: make(chan struct{})}
				w.bodies = append(w.bodies, body)
				response.Body = body
			}
			return response, err
		})
	})
	return config
}

// set makes the server be away or there again; going away cuts every watch.
func (w *watches) set(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
	if away {
		for _, body := range w.bodies {
			_ = body.Close()
		}
		w.bodies = nil
	}
}

func (w *watches) setSilent(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = silent
}

func TestInventoryLosesNothingWhenTheWatchBreaks(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	n.make("a", "b")
	rows := &inventoryRows{}
	var w watches
	var log logged
	i := newInventory(t, w.config(k.Config), rows, InventoryOptions{Log: log.logger()})
	start(t, i.Run)
	<-i.Synced()
	w.set(true)
	n.make("c")
	n.remove("a")
	n.label("b", `"true"`)
	eventually(t, func() error { return log.says("connection refused") })
	w.set(false)
	eventually(t, func() error { return rows.has(n.prefix, "b!", "c") })
	w.set(true)
	n.make("a")
	n.remove("c")
	n.label("b", `null`)
	w.set(false)
	eventually(t, func() error { return rows.has(n.prefix, "a", "b") })
}

func TestInventoryFindsOutThatAWatchDiedInSilence(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	rows := &inventoryRows{}
	var w watches
	i := newInventory(t, w.config(k.Config), rows, InventoryOptions{Relist: 2 * time.Second})
	start(t, i.Run)
	<-i.Synced()
	w.setSilent(true)
	n.make("a")
	n.make("b")
	eventually(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.swallowed == 0 {
			return errors.New("nothing was swallowed")
		}
		return nil
	})
	w.setSilent(false)
	eventually(t, func() error { return rows.has(n.prefix, "a", "b") })
}

func TestInventoryWritesABurstAtOnce(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	n.make("first")
	rows := &inventoryRows{}
	i := newInventory(t, k.Config, rows, InventoryOptions{})
	entered, goOn := make(chan struct{}, 100), make(chan struct{})
	rows.setBefore(func(inventoryCall) error { entered <- struct{}{}; <-goOn; return nil })
	start(t, i.Run)
	<-entered
	var want []string
	for j := range 20 {
		want = append(want, fmt.Sprintf("n%02d", j))
	}
	n.make(want...)
	eventually(t, func() error {
		i.pending.mu.Lock()
		defer i.pending.mu.Unlock()
		for _, suffix := range want {
			if !i.pending.changed[n.prefix+suffix] {
				return fmt.Errorf("the watch has not shown %s", suffix)
			}
		}
		return nil
	})
	rows.setBefore(nil)
	close(goOn)
	eventually(t, func() error { return rows.has(n.prefix, append([]string{"first"}, want...)...) })
	carrying := 0
	for _, call := range rows.writes() {
		if slices.ContainsFunc(call.namespaces, func(ns berth.Namespace) bool { return strings.HasPrefix(ns.Name, n.prefix+"n") }) {
			carrying++
		}
	}
	if carrying != 1 {
		t.Errorf("20 namespaces took %d writes, want 1", carrying)
	}
}

func TestTwoInventoriesAgree(t *testing.T) {
	t.Parallel()
	k, client := cluster(t)
	n := newNamespaces(t, client)
	rows := &inventoryRows{}
	for range 2 {
		i := newInventory(t, k.Config, rows, InventoryOptions{})
		start(t, i.Run)
		<-i.Synced()
	}
	for range 3 {
		n.make("a", "b", "c")
		n.remove("b")
		n.label("c", `"true"`)
		eventually(t, func() error { return rows.has(n.prefix, "a", "c!") })
		n.remove("a")
		n.remove("c")
		eventually(t, func() error { return rows.has(n.prefix) })
	}
}

func TestPendingNamespacesKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	object := func(name, exclude string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{berth.LabelExclude: exclude, "x": rand.Text()}}}
	}
	p := newPendingNamespaces()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Replace([]any{object("b", ""), object("a", "true")}, "1"))
	want := namespaceBatch{complete: true, namespaces: []berth.Namespace{{Name: "a", Exists: true, Excluded: true}, {Name: "b", Exists: true}}}
	if got := p.take(); !got.complete || !slices.Equal(got.namespaces, want.namespaces) {
		t.Errorf("the first list: %+v, want %+v", got, want)
	}
	must(p.Update(object("a", "true")))
	must(p.Delete(object("never-there", "")))
	if len(p.some) != 0 {
		t.Errorf("other labels are worth a write: %+v", p.take())
	}
	must(p.Add(object("c", "")))
	must(p.Update(object("c", "true")))
	must(p.Delete(object("a", "")))
	want.namespaces = []berth.Namespace{{Name: "a"}, {Name: "c", Exists: true, Excluded: true}}
	if got := p.take(); got.complete || !slices.Equal(got.namespaces, want.namespaces) {
		t.Errorf("changes: %+v, want %+v", got, want.namespaces)
	}
	must(p.Replace([]any{object("c", "true")}, "2"))
	if got := p.take(); !got.complete || len(got.namespaces) != 1 {
		t.Errorf("a list that equals what is known: %+v", got)
	}
	if err := p.Add("no object"); err == nil {
		t.Error("something that is no object is taken")
	}
}

func TestNewInventoryRefusesNegativeDurations(t *testing.T) {
	t.Parallel()
	for _, o := range []InventoryOptions{{Relist: -1}, {Gap: -1}, {RetryMin: -1}, {RetryMax: -1}} {
		if _, err := NewInventory(&rest.Config{}, &inventoryRows{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
