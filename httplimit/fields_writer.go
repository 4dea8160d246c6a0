package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
	"github.com/sluice-go/sluice/internal/policy"
)

// The names of the fields of draft-ietf-httpapi-ratelimit-headers-11, in the canonical form of
// http.Header. Only this file, and fields_reader.go, depend on the revision of the draft.
const (
	limitField  = "Ratelimit"
	policyField = "Ratelimit-Policy"
)

const separator = ", "

// writeFields appends the items of a decision to both fields.
func (g *guard) writeFields(h http.Header, results []sluice.RuleResult) {
	var limitBuffer, policyBuffer [128]byte
	limits, policies := limitBuffer[:0], policyBuffer[:0]
	for i := range results {
		if isVisible(&results[i]) {
			limits = g.appendLimit(limits, &results[i])
			policies = g.appendPolicies(policies, &results[i])
		}
	}
	if len(limits) > 0 {
		appendItems(h, limitField, limits)
		appendItems(h, policyField, policies)
	}
}

// appendItems appends items, each with a separator before it, to a field. Items that another limiter or a
// proxy has set stay in front. All items are on one field line, because many clients read only the first
// line of a field.
func appendItems(h http.Header, field string, items []byte) {
	if before := h[field]; len(before) > 0 {
		h[field] = []string{strings.Join(before, separator) + string(items)}
	} else {
		h[field] = []string{string(items[len(separator):])}
	}
}

// isVisible reports whether clients see the result. A rule that denied a request without a key has no
// quota to show.
func isVisible(result *sluice.RuleResult) bool {
	_, missing := result.Policy.(denyall.Policy)
	return !result.Shadow && !missing
}

// appendLimit appends an item of RateLimit. Its t is the time until a client can get more than
// Remaining: after a denial, the time until the denied cost is available. For held units that time is not known.
func (g *guard) appendLimit(text []byte, result *sluice.RuleResult) []byte {
	wait := shownWait(result, result.RetryAfter)
	switch {
	case result.Allowed && isHolder(result.Policy), wait == algo.Never:
		wait = 0
	case result.Allowed:
		wait = result.NextRefill
	}
	text = appendName(text, result.Rule, partOf(result))
	text = appendParameter(text, ";r=", result.Remaining)
	if wait > 0 {
		text = appendParameter(text, ";t=", seconds(wait))
	}
	return g.appendPartition(text, result)
}

// appendPolicies appends the items of RateLimit-Policy for one rule.
func (g *guard) appendPolicies(text []byte, result *sluice.RuleResult) []byte {
	stack := compose.StackOf(result.Policy)
	if stack == nil {
		return g.appendPolicy(text, result, -1, result.Limit, result.Policy.Limit())
	}
	for i, part := range stack.Parts() {
		unused, _ := part.Peek(nil, time.Unix(0, 0), 1) // only a state can cause an error
		text = g.appendPolicy(text, result, i, unused.Limit, part.Limit())
	}
	return text
}

// appendPolicy appends an item of RateLimit-Policy. Its w is the time in which as many units
// come back as its q says. It is rounded up, so that the item never promises a higher rate than
// the limit. Held units have no w, because they come back when they are released.
func (g *guard) appendPolicy(text []byte, result *sluice.RuleResult, part int, capacity int64, limit algo.Limit) []byte {
	text = appendName(text, result.Rule, part)
	text = appendParameter(text, ";q=", capacity)
	isHeld := isHolder(result.Policy)
	if !isHeld {
		text = appendParameter(text, ";w=", seconds(refillTime(capacity, limit)))
	}
	if slices.Contains(g.Bytes, result.Rule) {
		text = append(text, `;qu="content-bytes"`...)
	} else if isHeld {
		text = append(text, `;qu="concurrent-requests"`...)
	}
	return g.appendPartition(text, result)
}

// refillTime returns the time in which n units come back, rounded up. It returns the longest Duration
// if the time is longer, and 0 if there is no limit.
func refillTime(n int64, limit algo.Limit) time.Duration {
	if limit.Count < 1 {
		return 0
	}
	t := policy.MulDiv(n, int64(limit.Period), limit.Count)
	if t < math.MaxInt64 && t*limit.Count != n*int64(limit.Period) { // if these overflow, both do
		t++
	}
	return time.Duration(t)
}

// appendPartition appends the parameter pk, a keyed hash of the rule and its key.
func (g *guard) appendPartition(text []byte, result *sluice.RuleResult) []byte {
	if len(g.PartitionSecret) == 0 {
		return text
	}
	mac := hmac.New(sha256.New, g.PartitionSecret)
	mac.Write([]byte(strconv.Quote(result.Rule)))
	mac.Write([]byte(result.Key))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, mac.Sum(nil)[:12])
	return append(text, ':')
}

// policyName is the name of a result's policy as clients read it.
func policyName(result *sluice.RuleResult) string {
	item := appendName(nil, result.Rule, partOf(result))
	name, _ := strconv.Unquote(string(item[len(separator):])) // a String has the escapes of Go
	return name
}

// partOf is the index of the stack's part that decided, or -1 if the policy has no parts.
func partOf(result *sluice.RuleResult) int {
	if compose.StackOf(result.Policy) != nil {
		return int(result.Part)
	}
	return -1
}

// appendName appends a separator and a rule's name as a String, with the number of a part, from
// 1, if part is not negative. A String is printable ASCII, so other bytes are written as %xx.
func appendName(text []byte, rule string, part int) []byte {
	text = append(text, separator+`"`...)
	for i := range len(rule) {
		switch c := rule[i]; {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ' || c > '~':
			text = fmt.Appendf(text, "%%%02x", c)
		default:
			text = append(text, c)
		}
	}
	if part >= 0 {
		text = strconv.AppendInt(append(text, '.'), int64(part)+1, 10)
	}
	return append(text, '"')
}

// appendParameter appends an Integer, which has at most 15 digits. A debt, which is negative, is
// written as 0.
func appendParameter(text []byte, name string, n int64) []byte {
	const maxInteger = 999_999_999_999_999
	return strconv.AppendInt(append(text, name...), min(max(n, 0), maxInteger), 10)
}

// seconds rounds up, to at least 1.
func seconds(d time.Duration) int64 { return max(int64((d-1)/time.Second)+1, 1) }

// writeLegacy sets the X-RateLimit fields of the rule that decided. It leaves the fields
// alone if another limiter of the route has set a lower number of remaining units.
func writeLegacy(h http.Header, d *sluice.Decision, now time.Time) {
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
		h.Set("X-Ratelimit-Limit", decimal(r.Limit))
		h.Set("X-Ratelimit-Remaining", decimal(remaining))
		h.Set("X-Ratelimit-Reset", decimal(now.Add(shownWait(r, r.ResetAfter)).Add(time.Second-1).Unix())) // rounded up
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
