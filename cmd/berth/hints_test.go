package main

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestEachHintReachesBothAndWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hint, wake := make(chan struct{}), make(chan struct{}, 1)
		kicks := 0
		go fanOut(ctx, hint, func() { kicks++ }, wake)
		for range 3 {
			hint <- struct{}{} // also while nobody takes what wakes the mirror
		}
		synctest.Wait()
		if kicks != 3 || len(wake) != 1 {
			t.Errorf("%d kicks, %d wake-ups", kicks, len(wake))
		}
	})
}
