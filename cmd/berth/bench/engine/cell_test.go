package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMissed(t *testing.T) {
	t.Parallel()
	took := func(seconds float64) Spread { return Spread{Median: seconds, N: 3} }
	for _, c := range []struct {
		name string
		cell Cell
		want []string
	}{
		{"reached", Cell{Work: "configmaps-10k", System: "berth", Seconds: took(0.9), PeakMB: new(100.0), OfList: new(2.0)}, nil},
		{"too slow and too large", Cell{Work: "configmaps-10k", System: "berth", Seconds: took(0.95), PeakMB: new(101.0)},
			[]string{"seconds 0.95, at most 0.90", "peak MB 101.00, at most 100.00"}},
		{"too far from the list", Cell{Work: "pods-1k", System: "engine", OfList: new(2.1)}, []string{"times the list 2.10, at most 2.00"}},
		{"its end drags", Cell{Work: "configmaps-50k", System: "engine", Tail: new(1.6)},
			[]string{"last tenth to first half 1.60, at most 1.50"}},
		{"places idle", Cell{Work: "crowd", System: "berth", Seconds: took(5.1), Busy: new(0.8)},
			[]string{"seconds 5.10, at most 5.00", "places in use 0.80, at least 0.90"}},
		{"nothing is asked of Velero", Cell{Work: "crowd", System: "velero", Seconds: took(83), Busy: new(0.1)}, nil},
		{"nor of the list", Cell{Work: "configmaps-10k", System: "list", Seconds: took(2)}, nil},
	} {
		if diff := cmp.Diff(c.want, c.cell.Missed()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	got := samples{3 * time.Second, time.Second, 2 * time.Second}.spread()
	if diff := cmp.Diff(Spread{Median: 2, Least: 1, Most: 3, N: 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
