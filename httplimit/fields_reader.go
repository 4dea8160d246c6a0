package httplimit

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/httplimit/internal/structured"
)

// reportedQuota is what a response reports of one limit.
type reportedQuota struct {
	valid     bool
	remaining int64         // requests
	wait      time.Duration // until remaining grows; 0 if not reported
}

// readQuota reads the limit with the fewest requests remaining. Of several with equally
// few, it reads the one that grows last. A limit in another unit than requests counts
// only if no bytes remain, because the cost of the next request is not known.
func readQuota(h http.Header) (found reportedQuota) {
	items, _ := structured.ReadItems(h[limitField])
	units := make(map[string]any)
	policies, _ := structured.ReadItems(h[policyField]) // a server may report none
	for _, policy := range policies {
		units[policy.Name] = policy.Params["qu"]
	}
	for _, item := range items {
		remaining, ok := item.Params["r"].(int64)
		seconds, _ := item.Params["t"].(int64)
		wait, unit := wholeSeconds(seconds), units[item.Name]
		if !ok || remaining < 0 || unit != nil && unit != "requests" && (unit != "content-bytes" || remaining > 0) {
			continue
		}
		if !found.valid || remaining < found.remaining || remaining == found.remaining && wait > found.wait {
			found = reportedQuota{true, remaining, wait}
		}
	}
	return found
}

// wholeSeconds limits n to the range of a Duration.
func wholeSeconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 1<<33)) * time.Second
}

// readRetryAfter reads a number of seconds, however large, or a date. A date is compared
// with the response's own Date, if it has one, because the two clocks may differ. It returns 0 if
// the field names no pause: it is missing, malformed, 0, negative, or a date that is not in the future.
func readRetryAfter(now time.Time, h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 63); err == nil || errors.Is(err, strconv.ErrRange) {
		return wholeSeconds(int64(n))
	}
	at, _ := http.ParseTime(text) // the year 1 if it is malformed
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0)
}
