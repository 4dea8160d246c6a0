package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// tellLegacy sets the fields that came before the standard, unless another limiter
// of the route told them of less.
func tellLegacy(h http.Header, d *compose.Decision) {
	for i := range d.Results {
		if r := &d.Results[i]; r.Rule == d.Rule && !r.Shadow {
			setLegacy(h, r)
		}
	}
}

func setLegacy(h http.Header, r *compose.RuleResult) {
	remaining := max(r.Remaining, 0)
	told, err := strconv.ParseInt(h.Get("X-Ratelimit-Remaining"), 10, 64)
	if err == nil && told < remaining {
		return
	}
	h.Set("X-Ratelimit-Limit", decimal(r.Limit))
	h.Set("X-Ratelimit-Remaining", decimal(remaining))
	reset := time.Now().Add(r.ResetAfter)
	if reset.Nanosecond() > 0 {
		reset = reset.Add(time.Second)
	}
	h.Set("X-Ratelimit-Reset", decimal(reset.Unix()))
}
