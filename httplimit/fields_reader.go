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
	remaining int64         // requests
	wait      time.Duration // until remaining grows; 0 if not reported
	window    time.Duration // of the policy; 0 if not reported
}

// readQuota reads the limit with the fewest requests remaining. Of several with equally
// few, it reads the one that grows last. A limit in another unit than requests counts
// only if nothing remains, because the cost of the next request is not known.
func readQuota(h http.Header) (found reportedQuota, ok bool) {
	items, _ := structured.ReadItems(h[limitField])
	if len(items) == 0 {
		return reportedQuota{}, false
	}
	policies := make(map[string]structured.Item)
	reported, _ := structured.ReadItems(h[policyField]) // a server may report none
	for _, policy := range reported {
		policies[policy.Name] = policy
	}
	for _, item := range items {
		q, valid := quotaOf(item, policies[item.Name])
		if valid && (!ok || q.remaining < found.remaining || q.remaining == found.remaining && q.wait > found.wait) {
			found, ok = q, true
		}
	}
	return found, ok
}

// quotaOf returns the quota in an item of RateLimit and its item of RateLimit-Policy.
func quotaOf(limit, policy structured.Item) (q reportedQuota, ok bool) {
	remaining, ok := limit.Params["r"].(int64)
	wait, _ := limit.Params["t"].(int64)
	window, _ := policy.Params["w"].(int64)
	unit, _ := policy.Params["qu"].(string)
	switch unit {
	case "", "requests":
	case "content-bytes":
		ok = ok && remaining == 0
	default:
		ok = false
	}
	return reportedQuota{remaining, wholeSeconds(wait), wholeSeconds(window)}, ok && remaining >= 0
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
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0)
}
