package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestErrorsAreWrittenOnOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                      "plain",
		"one\ntwo":                   "one; two",
		"tried:\n\ta: no\n\tb: no\n": "tried: a: no; b: no",
		"unknown\n\nDid you mean this?\n\tserver\n": "unknown; Did you mean this? server",
		"\r\n": "",
	} {
		if got := oneLine(errors.New(text)); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
}

func TestTheLogHasAnErrorOnOneLine(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: errorsOnOneLine}))
	log.Warn("reap", "error", fmt.Errorf("reap: %w", errors.Join(errors.New("one"), errors.New("two"))), "backups", 3)
	if got := out.String(); !strings.HasSuffix(got, `msg=reap error="reap: one; two" backups=3`+"\n") {
		t.Errorf("the log says %q", got)
	}
}
