package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMisses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		cell, least Cell
		want        []string
	}{
		{"reached", Cell{Metric: "dequeue", P50: new(5.0)}, Cell{P50: new(2.5)}, nil},
		{"too slow", Cell{Metric: "dequeue", P50: new(5.1)}, Cell{P50: new(5.1)}, []string{"p50 5.1 ms, at most 5"}},
		{"grows with the depth", Cell{Metric: "dequeue", P50: new(4.5)}, Cell{P50: new(2.0), Depth: 1000},
			[]string{"2.2 times that at 1000, at most 2"}},
		{"a tail", Cell{Metric: "slot_turnaround", P50: new(9.0), P99: new(51.0)}, Cell{}, []string{"p99 51.0 ms, at most 50"}},
		{"ever", Cell{Metric: "gate_hold", P50: new(900.0), Max: new(900.0)}, Cell{}, []string{"max 900.0 ms, at most 50"}},
		{"a rate", Cell{Metric: "cycles_8", PerSecond: new(299.0)}, Cell{}, []string{"299/s, at least 300"}},
		{"a count", Cell{Metric: "constraint_hits", Value: new(1.0)}, Cell{}, []string{"1, none may be"}},
		{"none", Cell{Metric: "constraint_hits", Value: new(0.0)}, Cell{}, nil},
		{"asked for at a depth", Cell{Metric: "position", Depth: 100_000, P50: new(11.0)}, Cell{}, []string{"p50 11.0 ms, at most 10"}},
		{"not asked for above it", Cell{Metric: "position", Depth: 1000, P50: new(11.0)}, Cell{}, nil},
		{"not measured", Cell{Metric: "wake_up", Error: "away"}, Cell{}, []string{"not measured"}},
		{"without a target", Cell{Metric: "leave", P50: new(1e6)}, Cell{}, nil},
	} {
		if diff := cmp.Diff(c.want, misses(c.cell, c.least)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
