package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// response is the response of allow and peek. That of refund and charge has no members of a decision. openapi.yaml
// describes the members.
type response struct {
	Allowed    *bool          `json:"allowed,omitempty"`
	Rule       *string        `json:"rule"`
	Remaining  *int64         `json:"remaining"`
	NextRefill int64          `json:"next_refill_ns"`
	ResetAfter int64          `json:"reset_after_ns"`
	RetryAfter any            `json:"retry_after_ns,omitempty"` // a nil *int64 is null
	Degraded   *bool          `json:"degraded,omitempty"`
	Cached     *bool          `json:"cached,omitempty"`
	Rules      []ruleResponse `json:"rules"`
}

type ruleResponse struct {
	Rule       string `json:"rule"`
	Policy     string `json:"policy"`
	Shadow     bool   `json:"shadow"`
	Capacity   int64  `json:"capacity"`
	Cost       int64  `json:"cost"`
	Paid       int64  `json:"paid"`
	Remaining  int64  `json:"remaining"`
	NextRefill int64  `json:"next_refill_ns"`
	ResetAfter int64  `json:"reset_after_ns"`
	Allowed    *bool  `json:"allowed,omitempty"`
	RetryAfter any    `json:"retry_after_ns,omitempty"`
}

// responseOf returns the response for a Decision. decides is true for allow and peek.
func responseOf(d *sluice.Decision, decides bool) *response {
	out := &response{Rules: make([]ruleResponse, len(d.Results))}
	if d.Rule != "" {
		out.Rule, out.Remaining = &d.Rule, &d.Remaining
	}
	if decides {
		out.Allowed, out.RetryAfter, out.Degraded, out.Cached = &d.Allowed, waitOf(d.RetryAfter), &d.Degraded, &d.Cached
	}
	full := false // one of the rules with the least remaining is full
	for i := range d.Results {
		r := &d.Results[i]
		out.Rules[i] = ruleResponse{
			Rule: r.Rule, Policy: r.Policy.String(), Shadow: r.Shadow,
			Capacity: r.Limit, Cost: r.Cost, Paid: r.Paid, Remaining: r.Remaining,
			NextRefill: int64(r.NextRefill), ResetAfter: int64(r.ResetAfter),
		}
		if decides {
			out.Rules[i].Allowed, out.Rules[i].RetryAfter = &r.Allowed, waitOf(r.RetryAfter)
		}
		if r.Shadow {
			continue
		}
		out.ResetAfter = max(out.ResetAfter, int64(r.ResetAfter))
		if r.Remaining == d.Remaining {
			out.NextRefill = max(out.NextRefill, int64(r.NextRefill))
			full = full || r.NextRefill == 0
		}
	}
	if full {
		out.NextRefill = 0
	}
	return out
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

// problem is a problem document (RFC 9457). openapi.yaml describes its members.
type problem struct {
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	Field   string   `json:"field,omitempty"`
	Offset  *int     `json:"offset,omitempty"`
	Rules   []string `json:"rules,omitempty"`
	Applied string   `json:"applied,omitempty"`
}

// storeRetryAfter is the Retry-After of a 503 in seconds, as httplimit has it.
const storeRetryAfter = "5"

// problemTypes is the prefix of each problem's type. The rest is the name of an example in the
// OpenAPI document.
const problemTypes = documentPath + "#/components/examples/"

// kinds has all kinds of problems.
var kinds = map[string]struct {
	status int
	title  string
}{
	"malformed":             {http.StatusBadRequest, "The body is not JSON"},
	"invalid":               {http.StatusBadRequest, "The body is not a valid request"},
	"unauthorized":          {http.StatusUnauthorized, "The token is missing or wrong"},
	"web-page":              {http.StatusForbidden, "Requests from web pages are refused"},
	"unknown-route":         {http.StatusNotFound, "The path is unknown"},
	"unknown-rule":          {http.StatusNotFound, "The rule is unknown"},
	"method":                {http.StatusMethodNotAllowed, "The path does not allow this method"},
	"slow":                  {http.StatusRequestTimeout, "The body did not arrive in time"},
	"too-large":             {http.StatusRequestEntityTooLarge, "The body or the key is too large"},
	"media-type":            {http.StatusUnsupportedMediaType, "The body must be JSON"},
	"fault":                 {http.StatusInternalServerError, "The server or its configuration is faulty"},
	"store-unavailable":     {http.StatusServiceUnavailable, "The store is unavailable"},
	"store-refused":         {http.StatusServiceUnavailable, "The store refused the request"},
	"store-contended":       {http.StatusServiceUnavailable, "Too many write conflicts"},
	"store-overloaded":      {http.StatusServiceUnavailable, "The store is overloaded"},
	"store-outcome-unknown": {http.StatusServiceUnavailable, "The store's response was lost"},
}

func newProblem(kind, format string, args ...any) *problem {
	k := kinds[kind]
	return &problem{Type: problemTypes + kind, Title: k.title, Status: k.status, Detail: fmt.Sprintf(format, args...)}
}

// plainProblem returns a problem of the type about:blank.
func plainProblem(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (p *problem) write(w http.ResponseWriter) {
	writeJSON(w, p.Status, "application/problem+json", p)
}

// invalid is the problem of valid JSON that is not a valid request. field is the wrong member,
// if it is one member.
func invalid(field, format string, args ...any) *problem {
	p := newProblem("invalid", format, args...)
	p.Field = field
	return p
}

func methodProblem(w http.ResponseWriter, r *http.Request, allow string) *problem {
	w.Header().Set("Allow", allow)
	return newProblem("method", "%s is not allowed for %s; want %s", r.Method, r.URL.Path, allow)
}

// failure returns the problem document for a request that could not be decided. The error goes
// to the log only, because it may describe the store: see logFailure.
func failure(w http.ResponseWriter, err error) *problem {
	p := problemOfError(err)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", storeRetryAfter)
	}
	return p
}

const seeApplied = "the member applied reports whether the request may have been applied"

// problemOfError returns the problem of a request that could not be decided because of err.
func problemOfError(err error) *problem {
	kind, applied := "fault", "no"
	var detail string
	switch {
	case errors.Is(err, algo.ErrStateVersion):
		detail = "a later version of sluice wrote the state of this rule; use that version, or give the rule a new name"
	case errors.Is(err, algo.ErrState):
		detail = "the stored state of this rule is damaged; reset the key"
	case errors.Is(err, algo.ErrCost), errors.Is(err, storage.ErrKey), errors.Is(err, storage.ErrDuplicateKey), errors.Is(err, storage.ErrSwap),
		errors.As(err, new(*sluice.RuleError)):
		detail = "internal error; see the server's log"
	case errors.Is(err, storage.ErrProgram):
		applied, detail = "unknown", "the store and the server decided differently; see the server's log"
	case errors.Is(err, storage.ErrOutcomeUnknown):
		kind, detail = "store-outcome-unknown", "the request may have been applied; a retry may apply it twice"
	case errors.Is(err, storage.ErrOverloaded):
		kind, detail = "store-overloaded", "the queue for the store is full; nothing was applied; send fewer requests, or retry later"
	case errors.Is(err, storage.ErrContended):
		kind, detail = "store-contended", "too many write conflicts on the same keys; nothing was applied; retry"
	case isPermanent(err):
		kind, detail = "store-refused", "the store cannot execute the request, and a retry cannot help until an operator has repaired the store; see the server's log"
	case errors.Is(err, context.DeadlineExceeded):
		kind, detail = "store-unavailable", "the store gave no decision within the timeout; "+seeApplied
	case errors.Is(err, storage.ErrUnavailable):
		kind, detail = "store-unavailable", "the store is unavailable; "+seeApplied
	default: // context.Canceled
		kind, detail = "store-unavailable", "the request ended before the store gave a decision; "+seeApplied
	}
	if errors.Is(err, storage.ErrOutcomeUnknown) || kind != "fault" && !errors.Is(err, storage.ErrNotApplied) {
		applied = "unknown"
	}
	p := newProblem(kind, "%s", detail)
	p.Applied = applied
	return p
}
