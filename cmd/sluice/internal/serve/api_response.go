package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// decision is the response of allow and peek. openapi.yaml describes its members.
type decision struct {
	Allowed bool `json:"allowed"`
	*balance
	RetryAfter *int64           `json:"retry_after_ns"`
	Degraded   bool             `json:"degraded"`
	Cached     bool             `json:"cached"`
	Limits     []limitsDecision `json:"limits"` // instead of those of the balance
}

// limitsDecision is the decision of one limit.
type limitsDecision struct {
	limitsBalance
	Allowed    bool   `json:"allowed"`
	RetryAfter *int64 `json:"retry_after_ns"`
}

// balance is the response of refund and charge.
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
	b, limits := balanceOf(d), make([]limitsDecision, len(d.Results))
	for i := range d.Results {
		r := &d.Results[i]
		limits[i] = limitsDecision{b.Limits[i], r.Allowed, waitOf(r.RetryAfter)}
	}
	return &decision{d.Allowed, b, waitOf(d.RetryAfter), d.Degraded, d.Cached, limits}
}

func balanceOf(d *compose.Decision) *balance {
	b := &balance{Limits: make([]limitsBalance, len(d.Results))}
	if d.Rule != "" {
		b.Limit, b.Remaining = &d.Rule, &d.Remaining
	}
	full := false // one of the limits with the least remaining is full
	for i := range d.Results {
		r := &d.Results[i]
		b.Limits[i] = limitsBalance{
			Limit: r.Rule, Policy: r.Policy.String(), Shadow: r.Shadow,
			Capacity: r.Limit, Cost: r.Cost, Paid: r.Paid, Remaining: r.Remaining,
			NextRefill: int64(r.NextRefill), ResetAfter: int64(r.ResetAfter),
		}
		if r.Shadow {
			continue
		}
		b.ResetAfter = max(b.ResetAfter, int64(r.ResetAfter))
		if r.Remaining == d.Remaining {
			b.NextRefill = max(b.NextRefill, int64(r.NextRefill))
			full = full || r.NextRefill == 0
		}
	}
	if full {
		b.NextRefill = 0
	}
	return b
}

// waitOf returns nil if waiting does not help.
func waitOf(d time.Duration) *int64 {
	if d == algo.Never {
		return nil
	}
	return (*int64)(&d)
}

// guard sets headers that forbid caching and content sniffing.
func guard(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writeJSON writes v as JSON. v has only strings, numbers and booleans, so it cannot fail.
func writeJSON(w http.ResponseWriter, status int, media string, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // people read the response, and no browser reads it as HTML
	_ = e.Encode(v)
	guard(w.Header())
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // an error means that the client is gone
}
