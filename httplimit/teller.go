package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// The fields, in the spelling that http.Header keeps them under.
const (
	limitField  = "Ratelimit"
	policyField = "Ratelimit-Policy"
)

// teller writes the fields of draft-ietf-httpapi-ratelimit-headers-11. All that
// the next revision may change is in this file, and in answer.go, which reads them.
type teller struct {
	bytes  []string // the rules whose unit it is
	secret []byte
}

// tell appends the items of a decision to both fields. Items that another limiter or
// a proxy has set stay, in front, on the same field line: many clients read only the
// first line of a field.
func (t *teller) tell(h http.Header, results []compose.RuleResult) {
	var room [256]byte
	text := room[:0]
	for i := range results {
		if result := &results[i]; visible(result) {
			text = appendComma(text, 0)
			text = t.appendLimit(text, result)
		}
	}
	if len(text) == 0 {
		return
	}
	split := len(text)
	for i := range results {
		if result := &results[i]; visible(result) {
			text = appendComma(text, split)
			text = t.appendPolicies(text, result)
		}
	}
	all := string(text) // one allocation for both fields, and one for their slices
	values := []string{all[:split], all[split:]}
	add(h, limitField, values[:1:1])
	add(h, policyField, values[1:])
}

// visible reports whether clients see the result. A rule that denies for want of a caller
// has no quota to show.
func visible(result *compose.RuleResult) bool {
	_, missing := result.Policy.(denyall.Policy)
	return !result.Shadow && !missing
}

func add(h http.Header, field string, value []string) {
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
func (t *teller) appendLimit(text []byte, result *compose.RuleResult) []byte {
	text = appendName(text, result.Rule, partOf(result))
	text = append(text, ";r="...)
	text = appendInteger(text, result.Remaining)
	if wait := waitOf(&result.Result); wait > 0 {
		text = append(text, ";t="...)
		text = appendInteger(text, seconds(wait))
	}
	return t.appendPartition(text, result)
}

// waitOf is the time within which no more than what remains can be had: until the
// cost is there that was denied, else until more is. 0 is no such time: all is
// there, or no waiting helps.
func waitOf(r *algo.Result) time.Duration {
	switch {
	case r.Allowed:
		return r.NextRefill
	case r.RetryAfter == algo.Never:
		return 0
	}
	return r.RetryAfter
}

// appendPolicies appends the items of RateLimit-Policy that a rule has.
func (t *teller) appendPolicies(text []byte, result *compose.RuleResult) []byte {
	stack, ok := result.Policy.(*compose.Stack)
	if !ok {
		return t.appendQuota(text, result, -1, result.Limit, result.Policy.Limit())
	}
	for i := range stack.Len() {
		if i > 0 {
			text = append(text, ", "...)
		}
		part := stack.Part(i)
		text = t.appendQuota(text, result, i, capacityOf(part), part.Limit())
	}
	return text
}

// partOf is the part of a stack that bound; -1 where there are no parts.
func partOf(result *compose.RuleResult) int {
	if _, ok := result.Policy.(*compose.Stack); ok {
		return result.Part
	}
	return -1
}

func (t *teller) appendQuota(text []byte, result *compose.RuleResult, part int, capacity int64, limit algo.Limit) []byte {
	text = appendName(text, result.Rule, part)
	text = append(text, ";q="...)
	text = appendInteger(text, capacity)
	text = append(text, ";w="...)
	text = appendInteger(text, windowOf(capacity, limit))
	if slices.Contains(t.bytes, result.Rule) {
		text = append(text, `;qu="content-bytes"`...)
	}
	return t.appendPartition(text, result)
}

// appendPartition appends a pk that tells keys apart and nothing about them.
func (t *teller) appendPartition(text []byte, result *compose.RuleResult) []byte {
	if len(t.secret) == 0 {
		return text
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(strconv.Quote(result.Rule)))
	mac.Write([]byte(result.Key))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, mac.Sum(nil)[:12])
	return append(text, ':')
}

// nameOf is what a client reads as the name of a result's policy.
func nameOf(result *compose.RuleResult) string {
	var text []byte
	for i := range len(result.Rule) {
		text = appendPrintable(text, result.Rule[i])
	}
	return string(appendPart(text, partOf(result)))
}
