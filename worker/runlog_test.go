package worker

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
)

// Whatever is said, and whenever it is written: the chunks are what was said, in
// order, each no longer than a row takes, and end with a line where one fits.
func TestChunksAreTheLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l runLog
		var said, kept strings.Builder
		numbers := 0
		drain := func() {
			for {
				chunk, text, more := l.next()
				if !more {
					return
				}
				if chunk != numbers || len(text) > berth.MaxLogChunk || strings.Contains(text, "\n") && !strings.HasSuffix(text, "\n") {
					t.Fatalf("chunk %d of %d bytes, want %d", chunk, len(text), numbers)
				}
				numbers++
				kept.WriteString(text)
				l.written(text)
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			line := strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 100, 10_000, 70_000, 200_000}).Draw(t, "length")) + "\n"
			said.WriteString(line)
			if _, err := l.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "drain") {
				drain()
			}
		}
		l.end()
		drain()
		whole, rest, cut := strings.Cut(kept.String(), "[")
		if !strings.HasPrefix(said.String(), whole) || cut != (said.Len() > berth.MaxLog) || !cut && whole != said.String() {
			t.Fatalf("%d of %d bytes are kept, then %q", len(whole), said.Len(), rest)
		}
	})
}
