package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
	"github.com/sluice-go/sluice/storage"
)

// Refusal is why a request is not let through.
type Refusal struct {
	Status   int      // as the package comment lists them
	Violated []string // the policies that denied, by their names in RateLimit-Policy
	// RetryAfter is the exact wait after a denial, and 5 seconds if the store failed,
	// because nobody knows when it is back. The field Retry-After has it in whole
	// seconds, rounded up. 0 means that waiting does not help; there is no field then.
	RetryAfter time.Duration
	// Missing is true if a rule denied because the request does not say who the caller
	// is: see [Caller].OrDeny.
	Missing bool
	// Decision is the denial, but for its Err; the zero Decision if Err is set.
	Decision compose.Decision
	// Err is why nothing could be decided; nil for a denial. It is not for the
	// client's eyes.
	Err error
}

// storeRetryAfter is the Retry-After of a 503. It is long enough to relieve a store that
// comes back, and short enough for a person who waits.
const storeRetryAfter = 5 * time.Second

// failure is the refusal of a request that could not be decided. If the rules are at
// fault it is no outage: trying again later does not help.
func failure(err error) Refusal {
	var rule *compose.RuleError
	if errors.As(err, &rule) || errors.Is(err, storage.ErrKey) || errors.Is(err, storage.ErrDuplicateKey) {
		return Refusal{Status: http.StatusInternalServerError, Err: err}
	}
	return Refusal{Status: http.StatusServiceUnavailable, RetryAfter: storeRetryAfter, Err: err}
}

// denial is the refusal of a request that was denied. It copies what it keeps of
// the decision, by way of the elements of its results, so that the results of the
// many that are allowed stay on the stack.
func (g *guard) denial(d *compose.Decision) Refusal {
	results := slices.Clone(d.Results)
	refusal := Refusal{Status: http.StatusTooManyRequests, Decision: compose.Decision{
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
		refusal.Violated = append(refusal.Violated, nameOf(result))
		if _, missing := result.Policy.(denyall.Policy); missing {
			refusal.Missing = true
			continue
		}
		if result.Cost > result.Limit && refusal.Status != http.StatusRequestEntityTooLarge {
			refusal.Status = g.tooMuch(result.Rule)
		}
	}
	if d.RetryAfter != algo.Never {
		refusal.RetryAfter = d.RetryAfter
	}
	return refusal
}

// tooMuch is the status of a cost above the capacity.
func (g *guard) tooMuch(rule string) int {
	if slices.Contains(g.teller.bytes, rule) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// problem is a problem document of RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

func problemOf(refusal *Refusal) problem {
	switch {
	case refusal.Missing && refusal.Status == http.StatusTooManyRequests:
		return problem{Type: "about:blank", Title: http.StatusText(refusal.Status),
			Detail: "the request does not say who the caller is, by a header or a cookie, and is not allowed without"}
	case refusal.Status == http.StatusTooManyRequests:
		return problem{Type: problemTypes + "quota-exceeded", Title: "Request cannot be satisfied as assigned quota has been exceeded"}
	case refusal.Status == http.StatusServiceUnavailable:
		return problem{Type: problemTypes + "temporary-reduced-capacity", Title: "Request cannot be satisfied due to temporary server capacity constraints"}
	}
	return problem{Type: "about:blank", Title: http.StatusText(refusal.Status)}
}

// Problem answers a refusal with a problem document (RFC 9457). It is what
// Options.OnDenied does unless told otherwise, and tells nothing of keys or errors. What
// the header said of other content, and of how to keep it, is deleted.
func Problem(w http.ResponseWriter, _ *http.Request, refusal Refusal) {
	p := problemOf(&refusal)
	p.Status, p.Violated = refusal.Status, refusal.Violated
	body, _ := json.Marshal(p) // strings and a number have no way to fail
	for _, other := range [...]string{"Cache-Control", "Content-Length", "Etag", "Expires", "Last-Modified"} {
		w.Header().Del(other) // but not Content-Encoding: its middleware may encode this too
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone has no use for it
}
