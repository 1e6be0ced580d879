package bench

import "fmt"

// target is what a metric is to reach; what is 0 is not asked for.
type target struct {
	metric string
	// from is the least depth that it is asked for at.
	from int
	// Milliseconds at most.
	p50, p99, max float64
	// growth is how many times the p50 at the least depth a p50 may be.
	growth float64
	// perSecond is a rate, at least.
	perSecond float64
	// none: the count is 0.
	none bool
}

var targets = []target{
	{metric: "dequeue", p50: 5, growth: 2},
	{metric: "wake_up", p50: 10},
	{metric: "slot_turnaround", p50: 10, p99: 50},
	{metric: "position", from: 100_000, p50: 10},
	{metric: "cycles_1", perSecond: 300},
	{metric: "cycles_8", perSecond: 300},
	{metric: "cycles_worker", perSecond: 300},
	{metric: "gate_hold", max: 50},
	{metric: "constraint_hits", none: true},
}

// misses says by how much a cell misses its target; nothing where it has none.
// least is the same measure at the least depth.
func misses(c, least Cell) []string {
	var missed []string
	atMost := func(what string, got *float64, want float64) {
		if want > 0 && got != nil && *got > want {
			missed = append(missed, fmt.Sprintf("%s %.1f ms, at most %.0f", what, *got, want))
		}
	}
	for _, t := range targets {
		if t.metric != c.Metric || c.Depth < t.from {
			continue
		}
		if c.Error != "" {
			missed = append(missed, "not measured")
		}
		atMost("p50", c.P50, t.p50)
		atMost("p99", c.P99, t.p99)
		atMost("max", c.Max, t.max)
		if t.growth > 0 && c.P50 != nil && least.P50 != nil && *c.P50 > t.growth**least.P50 {
			missed = append(missed, fmt.Sprintf("%.1f times that at %d, at most %.0f", *c.P50 / *least.P50, least.Depth, t.growth))
		}
		if t.perSecond > 0 && c.PerSecond != nil && *c.PerSecond < t.perSecond {
			missed = append(missed, fmt.Sprintf("%.0f/s, at least %.0f", *c.PerSecond, t.perSecond))
		}
		if t.none && c.Value != nil && *c.Value != 0 {
			missed = append(missed, fmt.Sprintf("%.0f, none may be", *c.Value))
		}
	}
	return missed
}
