package devenv

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnnounceSpeaksOnlyOfLongWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wait time.Duration
		want string
	}{
		{time.Second, ""},
		{11 * time.Second, "building: 2s …\n"},
		{83 * time.Second, "building: 2s …\nbuilding: 12s …\nbuilding: 22s …\nbuilding: 32s …\nbuilding: 42s …\nbuilding: 52s …\nbuilding: 1m2s …\nbuilding: 1m12s …\nbuilding: 1m22s …\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			end := announce(&out, "building")
			time.Sleep(test.wait) // of the bubble's clock
			end()
			if out.String() != test.want {
				t.Errorf("after %s: %q, want %q", test.wait, out.String(), test.want)
			}
		})
	}
}
