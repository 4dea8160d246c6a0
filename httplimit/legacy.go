package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// tellLegacy sets the fields that came before the standard, unless another limiter
// of the route told them of less.
func tellLegacy(h http.Header, d *compose.Decision, now time.Time) {
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule && visible(r) {
			setLegacy(h, r, now)
		}
	}
}

func setLegacy(h http.Header, r *compose.RuleResult, now time.Time) {
	remaining := max(r.Remaining, 0)
	told, err := strconv.ParseInt(h.Get("X-Ratelimit-Remaining"), 10, 64)
	if err == nil && told < remaining {
		return
	}
	h.Set("X-Ratelimit-Limit", decimal(r.Limit))
	h.Set("X-Ratelimit-Remaining", decimal(remaining))
	reset := now.Add(r.ResetAfter)
	if reset.Nanosecond() > 0 {
		reset = reset.Add(time.Second)
	}
	h.Set("X-Ratelimit-Reset", decimal(reset.Unix()))
}
