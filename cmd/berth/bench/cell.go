package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Header says on what a run was measured.
type Header struct {
	Cores             int    `json:"cores"`
	Postgres          string `json:"postgres"`
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	SharedBuffers     string `json:"shared_buffers"`
	Go                string `json:"go"`
	Iterations        int    `json:"iterations"`
	// Databases is what the names of the run's databases begin with: should the
	// run be killed, they are left behind.
	Databases string `json:"databases"`
}

// Cell is one measure of one shape of a queue at one depth.
type Cell struct {
	Shape string `json:"shape"`
	// Depth is how many backups wait.
	Depth  int    `json:"depth"`
	Metric string `json:"metric"`
	// P50, P99 and Max are milliseconds; null for rates of many clients and for counts.
	P50 *float64 `json:"p50_ms"`
	P99 *float64 `json:"p99_ms"`
	Max *float64 `json:"max_ms,omitempty"`
	// N is how many times it was measured.
	N int `json:"n"`
	// PerSecond is set for rates, Value for counts.
	PerSecond *float64 `json:"per_second,omitempty"`
	Value     *float64 `json:"value,omitempty"`
	// Load is the machine's load average over a minute, when the cell was done.
	Load float64 `json:"load"`
	// Error says why it could not be measured.
	Error string `json:"error,omitempty"`
}

// line is one line of a report: the header, or a cell.
type line struct {
	Header *Header `json:"header,omitempty"`
	Cell
}

// WriteHeader writes a header as a line of JSON.
func WriteHeader(w io.Writer, h Header) error {
	return json.NewEncoder(w).Encode(struct {
		Header Header `json:"header"`
	}{h})
}

// WriteCell writes a cell as a line of JSON.
func WriteCell(w io.Writer, c Cell) error { return json.NewEncoder(w).Encode(c) }

// Report is what a run wrote: JSON, an object a line. Reports that were joined
// are one, with the header of the first.
type Report struct {
	Header Header
	Cells  []Cell
}

// ReadReport reads what WriteHeader and WriteCell wrote.
func ReadReport(r io.Reader) (Report, error) {
	var report Report
	headers := 0
	for lines := json.NewDecoder(r); ; {
		var l line
		err := lines.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return report, fmt.Errorf("read a report: %w", err)
		}
		switch {
		case l.Header == nil:
			report.Cells = append(report.Cells, l.Cell)
		case headers == 0:
			report.Header = *l.Header
			headers++
		}
	}
	if headers == 0 {
		return report, errors.New("read a report: it has no header")
	}
	return report, nil
}

func (h Header) String() string {
	return fmt.Sprintf("%d cores, Postgres %s, fsync %s, synchronous_commit %s, shared_buffers %s, %s, %d iterations",
		h.Cores, h.Postgres, h.Fsync, h.SynchronousCommit, h.SharedBuffers, h.Go, h.Iterations)
}
