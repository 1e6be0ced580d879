package bench

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-backup/berth/db"
)

// record is what was measured of one shape at one depth.
type record struct {
	mu sync.Mutex
	// times are the samples by their metric.
	times   map[string]samples
	rates   []Cell
	retries map[string]int
	hits    int
	// warming: what is called is called for the first times.
	warming bool
}

func newRecord() *record {
	// Those that are to be told also where there is none.
	return &record{times: map[string]samples{}, retries: map[string]int{"40001": 0, "40P01": 0, "55P03": 0}}
}

// clock notes how long do takes, unless it fails.
func (r *record) clock(metric string, do func() error) error {
	started := time.Now()
	if err := do(); err != nil {
		return err
	}
	r.note(metric, time.Since(started))
	return nil
}

func (r *record) note(metric string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warming {
		if metric != "gate_hold" {
			return
		}
		metric = "gate_hold_cold"
	}
	r.times[metric] = append(r.times[metric], took)
}

func (r *record) rate(c Cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.warming {
		r.rates = append(r.rates, c)
	}
}

// warmUp notes nothing of what do does, but for the gates: how long one is held
// while nothing is cached yet.
func (r *record) warmUp(do func() error) error {
	r.warm(true)
	defer r.warm(false)
	return do()
}

func (r *record) warm(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warming = up
}

// watch has the gates of a store noted.
func (r *record) watch(s *db.Store) {
	s.ObserveGates(func(held time.Duration) { r.note("gate_hold", held) })
}

// count adds what a store that is done has counted.
func (r *record) count(s *db.Store) {
	for state, n := range s.Retries() {
		r.retries[state] += n
	}
	for _, n := range s.ConstraintHits() {
		r.hits += n
	}
}

// cells are in the order of the metrics' names.
func (r *record) cells(shape string, depth int) []Cell {
	cells := slices.Clone(r.rates)
	for metric, times := range r.times {
		c := times.cell(metric)
		if metric == "enqueue" {
			c.PerSecond = rate(len(times), times.sum())
		}
		cells = append(cells, c)
	}
	for state, n := range r.retries {
		cells = append(cells, Cell{Metric: "retries_" + state, N: 1, Value: new(float64(n))})
	}
	cells = append(cells, Cell{Metric: "constraint_hits", N: 1, Value: new(float64(r.hits))})
	slices.SortFunc(cells, func(a, b Cell) int { return strings.Compare(a.Metric, b.Metric) })
	for i := range cells {
		cells[i].Shape, cells[i].Depth, cells[i].Load = shape, depth, loadAverage()
	}
	return cells
}
