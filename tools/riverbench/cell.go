package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// cell is one measure, as berth bench queue writes it.
type cell struct {
	Shape     string   `json:"shape"`
	Depth     int      `json:"depth"`
	Metric    string   `json:"metric"`
	P50       *float64 `json:"p50_ms"`
	P99       *float64 `json:"p99_ms"`
	Max       *float64 `json:"max_ms,omitempty"`
	N         int      `json:"n"`
	PerSecond *float64 `json:"per_second,omitempty"`
	Load      float64  `json:"load"`
}

func write(c cell) error {
	c.Shape = "river"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if _, err := fmt.Sscan(string(text), &c.Load); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}

type samples []time.Duration

func (s samples) percentile(of float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(int(math.Ceil(of/100*float64(len(sorted)))), 1)-1]
}

func (s samples) sum() (total time.Duration) {
	for _, d := range s {
		total += d
	}
	return total
}

func (s samples) cell(metric string, depth int) cell {
	return cell{Metric: metric, Depth: depth, N: len(s),
		P50: milliseconds(s.percentile(50)), P99: milliseconds(s.percentile(99)), Max: milliseconds(slices.Max(s))}
}

func milliseconds(d time.Duration) *float64 {
	return new(float64(d.Round(time.Microsecond)) / float64(time.Millisecond))
}

func rate(n int, in time.Duration) *float64 {
	return new(math.Round(float64(n)/in.Seconds()*100) / 100)
}
