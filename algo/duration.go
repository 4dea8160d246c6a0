package algo

import (
	"strings"
	"time"
)

// FormatDuration formats d like [time.Duration.String], but without trailing zero units:
// 15m instead of 15m0s, and 36h instead of 36h0m0s. Specs and traces use this form.
// [time.ParseDuration] parses it.
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
