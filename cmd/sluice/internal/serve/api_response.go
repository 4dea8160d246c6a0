package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// decision answers allow and peek. Its members are described in openapi.yaml.
type decision struct {
	Allowed    bool             `json:"allowed"`
	Limit      *string          `json:"limit"`
	Remaining  *int64           `json:"remaining"`
	RetryAfter *int64           `json:"retry_after_ns"`
	NextRefill int64            `json:"next_refill_ns"`
	ResetAfter int64            `json:"reset_after_ns"`
	Degraded   bool             `json:"degraded"`
	Cached     bool             `json:"cached"`
	Limits     []limitsDecision `json:"limits"`
}

// limitsDecision is what one limit says.
type limitsDecision struct {
	limitsBalance
	Allowed    bool   `json:"allowed"`
	RetryAfter *int64 `json:"retry_after_ns"`
}

// balance answers refund and charge.
type balance struct {
	Limit      *string         `json:"limit"`
	Remaining  *int64          `json:"remaining"`
	NextRefill int64           `json:"next_refill_ns"`
	ResetAfter int64           `json:"reset_after_ns"`
	Limits     []limitsBalance `json:"limits"`
}

type limitsBalance struct {
	Limit      string `json:"limit"`
	Policy     string `json:"policy"`
	Shadow     bool   `json:"shadow"`
	Capacity   int64  `json:"capacity"`
	Cost       int64  `json:"cost"`
	Paid       int64  `json:"paid"`
	Remaining  int64  `json:"remaining"`
	NextRefill int64  `json:"next_refill_ns"`
	ResetAfter int64  `json:"reset_after_ns"`
}

func decisionOf(d *compose.Decision) *decision {
	all := balanceOf(d)
	answer := &decision{
		Allowed: d.Allowed, Limit: all.Limit, Remaining: all.Remaining,
		RetryAfter: waitOf(d.RetryAfter), NextRefill: all.NextRefill, ResetAfter: all.ResetAfter,
		Degraded: d.Degraded, Cached: d.Cached,
		Limits: make([]limitsDecision, len(d.Results)),
	}
	if d.Rule != "" { // after a denial the one that denied, which may have more left than another
		answer.Limit = &d.Rule
	}
	for i := range d.Results {
		r := &d.Results[i]
		answer.Limits[i] = limitsDecision{all.Limits[i], r.Allowed, waitOf(r.RetryAfter)}
	}
	return answer
}

func balanceOf(d *compose.Decision) *balance {
	b := &balance{Limits: make([]limitsBalance, len(d.Results))}
	for i := range d.Results {
		r := &d.Results[i]
		b.Limits[i] = limitsBalance{
			Limit: r.Rule, Policy: r.Policy.String(), Shadow: r.Shadow,
			Capacity: r.Limit, Cost: r.Cost, Paid: r.Paid, Remaining: r.Remaining,
			NextRefill: int64(r.NextRefill), ResetAfter: int64(r.ResetAfter),
		}
		if !r.Shadow {
			b.add(&b.Limits[i])
		}
	}
	return b
}

// add takes one more limit into account that is enforced.
func (b *balance) add(l *limitsBalance) {
	b.ResetAfter = max(b.ResetAfter, l.ResetAfter)
	switch {
	case b.Remaining == nil || l.Remaining < *b.Remaining:
		b.Limit, b.Remaining, b.NextRefill = &l.Limit, &l.Remaining, l.NextRefill
	case l.Remaining > *b.Remaining:
	case l.NextRefill == 0 || b.NextRefill == 0: // one of those that have equally little is full
		b.NextRefill = 0
	default:
		b.NextRefill = max(b.NextRefill, l.NextRefill)
	}
}

func waitable(d time.Duration) bool { return d != algo.Never }

// waitOf is nil where no waiting helps.
func waitOf(d time.Duration) *int64 {
	if !waitable(d) {
		return nil
	}
	return (*int64)(&d)
}

// guard is for answers that are true now and for nobody else, and are what they say
// they are.
func guard(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writeJSON writes what is made of strings, numbers and booleans, which cannot fail.
func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it is read by people, and never as HTML
	_ = e.Encode(v)
	guard(w.Header())
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone has no use for it
}
