package algo

import (
	"strings"
	"time"
)

// FormatDuration writes d as [time.Duration.String] does, without the zero units
// at its end: 15m rather than 15m0s, and 36h rather than 36h0m0s. It is how specs
// and traces are written; [time.ParseDuration] reads it back.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
