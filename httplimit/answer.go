package httplimit

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/internal/structured"
)

// left is what a server told is left.
type left struct {
	remaining int64         // requests
	wait      time.Duration // until there are more; 0 if not told
	window    time.Duration // of the policy; 0 if not told
}

// readLimit reads the limit that binds: the one with the least left, and of these
// the one that grows last. Limits of other units than requests bind only when
// nothing is left of them, because nobody knows what the next request costs.
func readLimit(h http.Header) (found left, ok bool) {
	if len(h[limitField]) == 0 {
		return left{}, false
	}
	items, valid := structured.ReadItems(h[limitField])
	if !valid {
		return left{}, false
	}
	known := readPolicies(h[policyField])
	for _, item := range items {
		l, binds := leftOf(item, known)
		if binds && (!ok || l.remaining < found.remaining || l.remaining == found.remaining && l.wait > found.wait) {
			found, ok = l, true
		}
	}
	return found, ok
}

func leftOf(item structured.Item, known map[string]policy) (l left, binds bool) {
	remaining, told := item.Integer("r")
	if !told || remaining < 0 {
		return left{}, false
	}
	p := known[item.Name]
	l = left{remaining: remaining, window: p.window}
	if wait, ok := item.Integer("t"); ok {
		l.wait = wholeSeconds(wait)
	}
	switch p.unit {
	case "", "requests":
		return l, true
	case "content-bytes":
		return l, remaining == 0
	}
	return l, false
}

// policy is what a server told of one.
type policy struct {
	window time.Duration
	unit   string // empty: of requests
}

// readPolicies reads the policies by their names. A server need not tell any.
func readPolicies(lines []string) map[string]policy {
	items, _ := structured.ReadItems(lines)
	known := make(map[string]policy, len(items))
	for _, item := range items {
		p := known[item.Name]
		if w, ok := item.Integer("w"); ok {
			p.window = wholeSeconds(w)
		}
		if qu, ok := item.Params["qu"].(string); ok {
			p.unit = qu
		}
		known[item.Name] = p
	}
	return known
}

// wholeSeconds holds n within what a Duration can count.
func wholeSeconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 1<<33)) * time.Second
}

// readRetryAfter reads a number of seconds, however large, or a date, which is by
// the server's clock if the response tells that.
func readRetryAfter(now time.Time, h http.Header) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 63); err == nil || errors.Is(err, strconv.ErrRange) {
		return wholeSeconds(int64(n)), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0), true
}
