package main

import (
	"log/slog"
	"os"
	"strings"

	"k8s.io/klog/v2"
)

// newLog makes the log of a process. What client-go says by itself goes there
// as well.
func newLog() *slog.Logger {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: errorsOnOneLine}))
	klog.SetSlogLogger(log)
	return log
}

// errorsOnOneLine writes errors without the line ends that would be escaped.
func errorsOnOneLine(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.String(a.Key, oneLine(err))
	}
	return a
}

// oneLine writes an error, and those joined to it, on one line. A line that
// ends with a colon announces the next.
func oneLine(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		switch text := b.String(); {
		case text == "":
		case strings.HasSuffix(text, ":"), strings.HasSuffix(text, "?"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}
