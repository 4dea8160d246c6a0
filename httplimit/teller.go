package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// The fields, in the spelling that http.Header keeps them under.
const (
	limitField  = "Ratelimit"
	policyField = "Ratelimit-Policy"
)

// teller writes the fields of draft-ietf-httpapi-ratelimit-headers-11. All that
// the next revision may change is in this file.
type teller struct {
	rules  []toldRule
	bytes  []string
	secret []byte
}

// toldRule is what is known of a rule beforehand.
type toldRule struct {
	name   string
	policy algo.Policy // nil where it is chosen
	choose func(*http.Request) algo.Policy
	items  string // of the policy field, unless chosen or with a pk
}

func newTeller(o Options) teller {
	t := teller{bytes: slices.Clone(o.Bytes), secret: slices.Clone(o.PartitionSecret)}
	for i := range o.Rules {
		rule := toldRule{name: o.Rules[i].Name, policy: o.Rules[i].Policy, choose: o.Rules[i].Choose}
		if rule.policy != nil && t.secret == nil {
			rule.items = string(t.appendPolicies(nil, &compose.RuleResult{Rule: rule.name}, rule.policy))
		}
		t.rules = append(t.rules, rule)
	}
	return t
}

// tell appends the items of a decision to both fields. Several lines of a field
// are one list, so what another limiter told stays.
func (t *teller) tell(h http.Header, r *http.Request, results []compose.RuleResult) {
	var room [256]byte
	var few [4]algo.Policy
	text, policies := room[:0], few[:0]
	for i := range results {
		policies = append(policies, t.policy(r, &results[i]))
		if result := &results[i]; !result.Shadow {
			text = appendComma(text, 0)
			text = t.appendLimit(text, result, policies[i])
		}
	}
	if len(text) == 0 {
		return
	}
	split := len(text)
	for i := range results {
		if result := &results[i]; !result.Shadow {
			text = appendComma(text, split)
			text = t.appendPolicy(text, result, policies[i])
		}
	}
	all := string(text) // one allocation for both fields, and one for their slices
	values := []string{all[:split], all[split:]}
	add(h, limitField, values[:1:1])
	add(h, policyField, values[1:])
}

func add(h http.Header, field string, value []string) {
	if told := h[field]; len(told) > 0 {
		value = append(told, value...)
	}
	h[field] = value
}

func appendComma(text []byte, start int) []byte {
	if len(text) > start {
		return append(text, ", "...)
	}
	return text
}

func (t *teller) find(name string) *toldRule {
	for i := range t.rules {
		if t.rules[i].name == name {
			return &t.rules[i]
		}
	}
	return nil
}

// policy is the policy of a rule, nil if that is not known.
func (t *teller) policy(r *http.Request, result *compose.RuleResult) algo.Policy {
	rule := t.find(result.Rule)
	switch {
	case rule == nil:
		return nil
	case rule.choose != nil:
		return rule.choose(r)
	}
	return rule.policy
}

// appendLimit appends an item of RateLimit.
func (t *teller) appendLimit(text []byte, result *compose.RuleResult, policy algo.Policy) []byte {
	part := -1
	if partsOf(policy) != nil {
		part = result.Part
	}
	text = appendName(text, result.Rule, part)
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

// appendPolicy appends the items of RateLimit-Policy that a rule has.
func (t *teller) appendPolicy(text []byte, result *compose.RuleResult, policy algo.Policy) []byte {
	if rule := t.find(result.Rule); rule != nil && rule.items != "" {
		return append(text, rule.items...)
	}
	return t.appendPolicies(text, result, policy)
}

func (t *teller) appendPolicies(text []byte, result *compose.RuleResult, policy algo.Policy) []byte {
	parts := partsOf(policy)
	if parts == nil {
		return t.appendQuota(text, result, policy, -1)
	}
	for i, part := range parts {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = t.appendQuota(text, result, part, i)
	}
	return text
}

// partsOf are the parts of a policy that is a stack, else nil.
func partsOf(policy algo.Policy) []algo.Policy {
	if stack, ok := policy.(*compose.Stack); ok {
		return stack.Parts()
	}
	return nil
}

func (t *teller) appendQuota(text []byte, result *compose.RuleResult, policy algo.Policy, part int) []byte {
	text = appendName(text, result.Rule, part)
	text = append(text, ";q="...)
	if policy == nil {
		text = appendInteger(text, result.Limit)
	} else {
		quota, window := quotaOf(policy)
		text = appendInteger(text, quota)
		text = append(text, ";w="...)
		text = appendInteger(text, window)
	}
	if slices.Contains(t.bytes, result.Rule) {
		text = append(text, `;qu="content-bytes"`...)
	}
	return t.appendPartition(text, result)
}

// appendPartition appends a pk that tells keys apart and nothing about them.
func (t *teller) appendPartition(text []byte, result *compose.RuleResult) []byte {
	if t.secret == nil {
		return text
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(strconv.Quote(result.Rule)))
	mac.Write([]byte(result.Key))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, mac.Sum(nil)[:12])
	return append(text, ':')
}

// name is what a result is called in the fields.
func (t *teller) name(r *http.Request, result *compose.RuleResult) string {
	if partsOf(t.policy(r, result)) == nil {
		return result.Rule
	}
	return result.Rule + "." + strconv.Itoa(result.Part+1)
}
