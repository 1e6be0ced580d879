package bench

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var hundred samples
	for n := 100; n >= 1; n-- {
		hundred = append(hundred, time.Duration(n)*time.Millisecond)
	}
	c := hundred.cell("x")
	if *c.P50 != 50 || *c.P99 != 99 || *c.Max != 100 || c.N != 100 {
		t.Errorf("of 1 to 100 ms: p50 %v, p99 %v, max %v, n %d", *c.P50, *c.P99, *c.Max, c.N)
	}
}

// A percentile is the smallest sample that so many of a hundred do not exceed.
func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := samples(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 50).Draw(t, "d"))
		}), 1, 50).Draw(t, "samples"))
		of := float64(rapid.IntRange(1, 100).Draw(t, "of"))
		got := s.percentile(of)
		atMost, below := 0, 0
		for _, d := range s {
			if d <= got {
				atMost++
			}
			if d < got {
				below++
			}
		}
		if share := of / 100 * float64(len(s)); float64(atMost) < share || float64(below) >= share {
			t.Fatalf("p%v of %v is %v", of, s, got)
		}
	})
}
