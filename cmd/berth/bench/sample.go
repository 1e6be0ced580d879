package bench

import (
	"math"
	"slices"
	"time"
)

// samples are the times that one thing took.
type samples []time.Duration

// percentile is the nearest rank: the smallest time that so many of a hundred
// do not exceed.
func (s samples) percentile(of float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(of / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

func (s samples) sum() (total time.Duration) {
	for _, d := range s {
		total += d
	}
	return total
}

// cell is what the samples come to.
func (s samples) cell(metric string) Cell {
	c := Cell{Metric: metric, N: len(s)}
	if len(s) > 0 {
		c.P50, c.P99, c.Max = milliseconds(s.percentile(50)), milliseconds(s.percentile(99)), milliseconds(slices.Max(s))
	}
	return c
}

// milliseconds to the microsecond.
func milliseconds(d time.Duration) *float64 {
	return new(float64(d.Round(time.Microsecond)) / float64(time.Millisecond))
}

// rate to the hundredth.
func rate(n int, in time.Duration) *float64 {
	return new(math.Round(float64(n)/in.Seconds()*100) / 100)
}
