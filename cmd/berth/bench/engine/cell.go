package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Spread is the median of some measures and their range, in seconds.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	N      int     `json:"n"`
}

// Cell is what one system took for one work. What was not measured is null.
type Cell struct {
	Work   string `json:"work"`
	System string `json:"system"`
	// Items are the objects of the archive, or of the list; of a crowd the backups.
	Items   int    `json:"items"`
	Seconds Spread `json:"seconds"`
	// PerSecond is items, OfList how many times as long as the bare list it took.
	PerSecond *float64 `json:"per_second,omitempty"`
	OfList    *float64 `json:"of_list,omitempty"`
	// PeakMB is the largest resident set of the process, ArchiveMB the archive.
	PeakMB    *float64 `json:"peak_mb,omitempty"`
	ArchiveMB *float64 `json:"archive_mb,omitempty"`
	// Requests are those that the API server answered meanwhile, to anybody.
	Requests *int `json:"requests,omitempty"`
	// Busy is the share of the time of all places that was in use.
	Busy *float64 `json:"busy,omitempty"`
	// Tail is the time of an item in the last tenth over that in the first half.
	Tail *float64 `json:"tail,omitempty"`
}

// Missed says which targets a cell misses.
func (c Cell) Missed() []string {
	var missed []string
	atMost := func(what string, got *float64, most float64) {
		if got != nil && *got > most {
			missed = append(missed, fmt.Sprintf("%s %.2f, at most %.2f", what, *got, most))
		}
	}
	if c.System != "berth" && c.System != "engine" {
		return nil
	}
	switch c.Work {
	case "configmaps-10k":
		if c.System == "berth" {
			atMost("seconds", &c.Seconds.Median, 0.9)
			atMost("peak MB", c.PeakMB, 100)
		}
	case "crowd":
		atMost("seconds", &c.Seconds.Median, 5)
		if c.Busy != nil && *c.Busy < 0.9 {
			missed = append(missed, fmt.Sprintf("places in use %.2f, at least 0.90", *c.Busy))
		}
	}
	atMost("times the list", c.OfList, 2)
	atMost("last tenth to first half", c.Tail, 1.5)
	return missed
}

// samples are the times that one thing took.
type samples []time.Duration

func (s samples) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

func (s samples) spread() Spread {
	seconds := func(d time.Duration) float64 { return *round(d.Seconds()) }
	return Spread{Median: seconds(s.median()), Least: seconds(slices.Min(s)), Most: seconds(slices.Max(s)), N: len(s)}
}

func round(x float64) *float64 { return new(math.Round(x*1000) / 1000) }

// WriteCell writes a cell as a line of JSON.
func WriteCell(w io.Writer, c Cell) error { return json.NewEncoder(w).Encode(c) }

// WriteTable writes cells for people, with what misses its target.
func WriteTable(w io.Writer, cells []Cell) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(columns ...string) { fmt.Fprintln(table, strings.Join(columns, "\t")+"\t") }
	row("work", "system", "items", "median s", "from", "to", "n", "items/s", "x list", "peak MB", "requests", "archive MB", "busy", "tail", "missed")
	missed := 0
	for _, c := range cells {
		problems := c.Missed()
		if len(problems) > 0 {
			missed++
		}
		requests := ""
		if c.Requests != nil {
			requests = fmt.Sprint(*c.Requests)
		}
		row(c.Work, c.System, fmt.Sprint(c.Items), number(&c.Seconds.Median), number(&c.Seconds.Least), number(&c.Seconds.Most), fmt.Sprint(c.Seconds.N),
			number(c.PerSecond), number(c.OfList), number(c.PeakMB), requests, number(c.ArchiveMB), number(c.Busy), number(c.Tail), strings.Join(problems, "; "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d cells, %d miss their target\n", len(cells), missed)
	return err
}

func number(x *float64) string {
	switch {
	case x == nil:
		return ""
	case *x >= 100:
		return fmt.Sprintf("%.0f", *x)
	}
	return fmt.Sprintf("%.2f", *x)
}
