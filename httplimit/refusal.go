package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/denyall"
	"github.com/sluice-go/sluice/storage"
)

// Refusal is the reason why a request is refused.
type Refusal struct {
	Status   int      // 429, 413, 422, 503 or 500
	Violated []string // the policies that denied, by their names in RateLimit-Policy
	// RetryAfter is the exact wait after a denial, and 5 seconds with the status 503. After a denial by an inflight rule it is at
	// most 1 second, because units can be released at any time. 0 means that waiting does not help, and there is no field
	// Retry-After.
	RetryAfter time.Duration
	Missing    bool // the request lacks a key: see [OptionalKey].OrDeny
	// Decision is the denial, but without its Err, which only sluice.Options.Observer gets. It is zero if Refusal.Err is set.
	Decision sluice.Decision
	// Err is set if the limiter could not decide. If the client is gone, it wraps context.Canceled. Do not send it to the client.
	Err error
}

// refusalOfError is for a request that could not be decided. If a rule is at fault, a later
// attempt fails too, so the status is 500 without Retry-After.
func refusalOfError(err error) Refusal {
	var rule *sluice.RuleError
	if errors.As(err, &rule) || errors.Is(err, storage.ErrKey) || errors.Is(err, storage.ErrDuplicateKey) {
		return Refusal{Status: http.StatusInternalServerError, Err: err}
	}
	// 5 seconds spare a store that recovers, and are short enough for a person who waits.
	return Refusal{Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Err: err}
}

// refusalOfDenial copies the decision field by field. If d itself escaped, the results of
// all allowed requests would be allocated too.
func (g *guard) refusalOfDenial(d *sluice.Decision) Refusal {
	results := slices.Clone(d.Results)
	refusal := Refusal{Status: http.StatusTooManyRequests, Decision: sluice.Decision{
		RetryAfter: d.RetryAfter, Remaining: d.Remaining, Results: results, Skew: d.Skew,
		Cached: d.Cached, Degraded: d.Degraded, Attempts: d.Attempts,
	}}
	for i := range results {
		result := &results[i]
		if result.Rule == d.Rule {
			refusal.Decision.Rule = result.Rule
		}
		if result.Allowed || result.Shadow {
			continue
		}
		refusal.Violated = append(refusal.Violated, policyName(result))
		refusal.RetryAfter = max(refusal.RetryAfter, shownWait(result, result.RetryAfter))
		_, missing := result.Policy.(denyall.Policy)
		switch {
		case missing:
			refusal.Missing = true
		case result.Cost <= result.Limit:
		case slices.Contains(g.Bytes, result.Rule):
			refusal.Status = http.StatusRequestEntityTooLarge
		case refusal.Status == http.StatusTooManyRequests:
			refusal.Status = http.StatusUnprocessableEntity
		}
	}
	if refusal.RetryAfter == algo.Never {
		refusal.RetryAfter = 0
	}
	return refusal
}

// Problem is the default of Options.OnDenied. It writes a problem document (RFC 9457), which contains neither the keys of the
// rules nor Refusal.Err. It deletes headers that would describe other content, such as ETag and Cache-Control.
func Problem(w http.ResponseWriter, _ *http.Request, refusal Refusal) {
	const registered = "https://iana.org/assignments/http-problem-types#"
	p := struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail,omitempty"`
		Violated []string `json:"violated-policies,omitempty"`
	}{"about:blank", http.StatusText(refusal.Status), refusal.Status, "", refusal.Violated}
	switch {
	case refusal.Missing:
		p.Detail = "the request lacks the header or cookie that names the caller"
	case refusal.Status == http.StatusTooManyRequests:
		p.Type, p.Title = registered+"quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	case refusal.Status == http.StatusServiceUnavailable:
		p.Type, p.Title = registered+"temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	}
	body, _ := json.Marshal(p) // strings and a number cannot fail
	for _, field := range [...]string{"Cache-Control", "Content-Length", "Etag", "Expires", "Last-Modified"} {
		w.Header().Del(field) // but not Content-Encoding: its middleware may encode this content too
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client is gone
}
