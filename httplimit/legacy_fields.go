package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// writeLegacy sets the X-RateLimit fields of the rule that decided. It leaves the fields
// alone if another limiter of the route has set a lower number of remaining units.
func writeLegacy(h http.Header, d *compose.Decision, now time.Time) {
	for i := range d.Results {
		r := &d.Results[i]
		if r.Rule != d.Rule || !isVisible(r) {
			continue
		}
		remaining := max(r.Remaining, 0)
		before, err := strconv.ParseInt(h.Get("X-Ratelimit-Remaining"), 10, 64)
		if err == nil && before < remaining {
			continue
		}
		reset := now.Add(r.ResetAfter)
		if reset.Nanosecond() > 0 {
			reset = reset.Add(time.Second) // rounded up
		}
		h.Set("X-Ratelimit-Limit", decimal(r.Limit))
		h.Set("X-Ratelimit-Remaining", decimal(remaining))
		h.Set("X-Ratelimit-Reset", decimal(reset.Unix()))
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
