package bench

import (
	"fmt"
	"os"
)

// loadAverage is that of the last minute; 0 where the system does not say.
func loadAverage() (minute float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &minute); err != nil {
		return 0
	}
	return minute
}
