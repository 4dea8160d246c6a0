package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// The names of the fields, in the canonical form of http.Header.
const (
	limitField  = "Ratelimit"
	policyField = "Ratelimit-Policy"
)

// maxInteger is the largest Integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// headerWriter writes the fields of draft-ietf-httpapi-ratelimit-headers-11. Only this file,
// and response_fields.go, which reads the fields, depend on the revision of the draft.
type headerWriter struct {
	byteRules []string // the rules whose unit is bytes
	secret    []byte   // of the partition keys
}

// write appends the items of a decision to both fields. Items that another limiter or a
// proxy has set stay in front. All items are on one field line, because many clients read
// only the first line of a field.
func (w *headerWriter) write(h http.Header, results []compose.RuleResult) {
	var buffer [256]byte
	text := buffer[:0]
	for i := range results {
		if isVisible(&results[i]) {
			text = appendComma(text, 0)
			text = w.appendLimit(text, &results[i])
		}
	}
	if len(text) == 0 {
		return
	}
	split := len(text)
	for i := range results {
		if isVisible(&results[i]) {
			text = appendComma(text, split)
			text = w.appendPolicies(text, &results[i])
		}
	}
	all := string(text) // one allocation for both fields, and one for their slices
	values := []string{all[:split], all[split:]}
	addItems(h, limitField, values[:1:1])
	addItems(h, policyField, values[1:])
}

// isVisible reports whether clients see the result. A rule that denied a request without a
// caller's name has no quota to show.
func isVisible(result *compose.RuleResult) bool {
	_, missing := result.Policy.(denyall.Policy)
	return !result.Shadow && !missing
}

func addItems(h http.Header, field string, value []string) {
	if before := h[field]; len(before) > 0 {
		value[0] = strings.Join(append(slices.Clone(before), value[0]), ", ")
	}
	h[field] = value
}

func appendComma(text []byte, start int) []byte {
	if len(text) > start {
		return append(text, ", "...)
	}
	return text
}

// appendLimit appends an item of RateLimit.
func (w *headerWriter) appendLimit(text []byte, result *compose.RuleResult) []byte {
	text = appendName(text, result.Rule, partOf(result))
	text = append(text, ";r="...)
	text = appendInteger(text, result.Remaining)
	if wait := timeToMore(&result.Result); wait > 0 {
		text = append(text, ";t="...)
		text = appendInteger(text, seconds(wait))
	}
	return w.appendPartition(text, result)
}

// timeToMore is how long a client must wait to get more than Remaining: after a denial,
// until the denied cost is available. It is 0 if the quota is full or no wait helps.
func timeToMore(r *algo.Result) time.Duration {
	switch {
	case r.Allowed:
		return r.NextRefill
	case r.RetryAfter == algo.Never:
		return 0
	}
	return r.RetryAfter
}

// appendPolicies appends the items of RateLimit-Policy for one rule.
func (w *headerWriter) appendPolicies(text []byte, result *compose.RuleResult) []byte {
	stack, ok := result.Policy.(*compose.Stack)
	if !ok {
		return w.appendQuota(text, result, -1, result.Limit, result.Policy.Limit())
	}
	for i := range stack.Len() {
		if i > 0 {
			text = append(text, ", "...)
		}
		part := stack.Part(i)
		text = w.appendQuota(text, result, i, capacityOf(part), part.Limit())
	}
	return text
}

// partOf is the index of the stack's part that decided, or -1 if the policy is no stack.
func partOf(result *compose.RuleResult) int {
	if _, ok := result.Policy.(*compose.Stack); ok {
		return result.Part
	}
	return -1
}

func (w *headerWriter) appendQuota(text []byte, result *compose.RuleResult, part int, capacity int64, limit algo.Limit) []byte {
	text = appendName(text, result.Rule, part)
	text = append(text, ";q="...)
	text = appendInteger(text, capacity)
	text = append(text, ";w="...)
	text = appendInteger(text, windowOf(capacity, limit))
	if slices.Contains(w.byteRules, result.Rule) {
		text = append(text, `;qu="content-bytes"`...)
	}
	return w.appendPartition(text, result)
}

// appendPartition appends the parameter pk, a keyed hash of the rule and its key.
func (w *headerWriter) appendPartition(text []byte, result *compose.RuleResult) []byte {
	if len(w.secret) == 0 {
		return text
	}
	mac := hmac.New(sha256.New, w.secret)
	mac.Write([]byte(strconv.Quote(result.Rule)))
	mac.Write([]byte(result.Key))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, mac.Sum(nil)[:12])
	return append(text, ':')
}

// policyName is the name of a result's policy as clients read it.
func policyName(result *compose.RuleResult) string {
	var text []byte
	for i := range len(result.Rule) {
		text = appendPrintable(text, result.Rule[i])
	}
	return string(appendPart(text, partOf(result)))
}

// appendName appends a rule's name as a String, with the number of a part, from 1, if part
// is not negative. A String is printable ASCII, so other bytes are written as %xx.
func appendName(text []byte, name string, part int) []byte {
	text = append(text, '"')
	for i := range len(name) {
		if c := name[i]; c == '"' || c == '\\' {
			text = append(text, '\\', c)
		} else {
			text = appendPrintable(text, c)
		}
	}
	return append(appendPart(text, part), '"')
}

func appendPrintable(text []byte, c byte) []byte {
	if ' ' <= c && c <= '~' {
		return append(text, c)
	}
	const digits = "0123456789abcdef"
	return append(text, '%', digits[c>>4], digits[c&15])
}

func appendPart(text []byte, part int) []byte {
	if part < 0 {
		return text
	}
	return strconv.AppendInt(append(text, '.'), int64(part)+1, 10)
}

// appendInteger appends n as an Integer. A debt, which is negative, is written as 0.
func appendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), maxInteger), 10)
}

// capacityOf is the highest cost that a policy can allow at once.
func capacityOf(policy algo.Policy) int64 {
	r, _ := policy.Peek(nil, time.Unix(0, 0), 1) // only a state can cause an error
	return r.Limit
}

// windowOf is the time in which so many units come back, in seconds. It is rounded up, so
// that q and w never promise a higher rate than the limit.
func windowOf(capacity int64, limit algo.Limit) int64 {
	if limit.Count < 1 {
		return 1
	}
	high, low := bits.Mul64(uint64(max(capacity, 0)), uint64(max(limit.Period, 0)))
	if high >= uint64(limit.Count) {
		return seconds(math.MaxInt64) // the longest Duration
	}
	nanoseconds, rest := bits.Div64(high, low, uint64(limit.Count))
	if rest > 0 && nanoseconds < math.MaxInt64 {
		nanoseconds++
	}
	return seconds(time.Duration(min(nanoseconds, math.MaxInt64)))
}

// seconds rounds up, to at least 1.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 1)
}
