package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes a report for people: a row a cell, with what misses its target.
func WriteTable(w io.Writer, r Report) error {
	if _, err := fmt.Fprintln(w, r.Header); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(columns ...string) { fmt.Fprintln(table, strings.Join(columns, "\t")+"\t") }
	row("shape", "depth", "metric", "p50 ms", "p99 ms", "max ms", "n", "per s", "count", "load", "missed")
	missed := 0
	for _, c := range r.Cells {
		if c.Value != nil && *c.Value == 0 { // as it should be
			continue
		}
		problems := misses(c, r.least(c))
		if len(problems) > 0 {
			missed++
		}
		if c.Error != "" {
			problems = append(problems, c.Error)
		}
		row(c.Shape, fmt.Sprint(c.Depth), c.Metric, number(c.P50), number(c.P99), number(c.Max), fmt.Sprint(c.N),
			number(c.PerSecond), number(c.Value), fmt.Sprintf("%.1f", c.Load), strings.Join(problems, "; "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d cells, %d miss their target\n", len(r.Cells), missed)
	return err
}

// least is the same measure of the same shape at the least depth.
func (r Report) least(of Cell) Cell {
	least := of
	for _, c := range r.Cells {
		if c.Shape == of.Shape && c.Metric == of.Metric && c.Depth < least.Depth {
			least = c
		}
	}
	return least
}

func number(x *float64) string {
	switch {
	case x == nil:
		return ""
	case *x >= 100 || *x == 0:
		return fmt.Sprintf("%.0f", *x)
	}
	return fmt.Sprintf("%.2f", *x)
}
