package compose

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// ErrSkew is in Decision.Err when the states were ahead of the clock that decided
// by more than Options.MaxSkew.
var ErrSkew = errors.New("compose: the stored states are ahead of the clock")

// Decision is the answer of a [Limiter]. The zero Decision allows nothing.
type Decision struct {
	Allowed bool
	// Rule is the name of the rule that bound: of those that denied the one
	// with the longest wait, else of those enforced the one with the least
	// remaining. It is empty if no rule applied.
	Rule string
	// RetryAfter is how long until the same call can be allowed by all rules enforced, if
	// nobody else spends; 0 when allowed, algo.Never if waiting does not help. A cached denial
	// (see Cached) does not know what other processes have done since it was cached, for
	// Options.DenialCacheTTL at most.
	RetryAfter time.Duration
	// Remaining is the least that is left under a rule enforced; 0 if none
	// applied.
	Remaining int64
	// Results are those of the rules that applied, in the order of the rules.
	// Where the decision is a denial, or a look, no rule has paid.
	Results []RuleResult
	// Skew is how far the states were ahead of the clock that decided, at most:
	// a process whose clock is ahead wrote them, or this one's clock is behind.
	Skew time.Duration

	// Cached reports that the denial came from the denial cache of this process, without a
	// round trip to the store; see Options.DenialCacheTTL.
	Cached bool
	// Degraded tells that the store failed and the failure policy decided.
	Degraded bool
	// Err is what was wrong with a decision that was made all the same: the
	// failure that degraded it, or ErrSkew.
	Err      error
	Attempts int // how often the rules were evaluated; more than once after conflicts or lost replies
}

// RuleResult is the result of one rule.
type RuleResult struct {
	Rule   string
	Key    string      // as Rule.Key found it
	Policy algo.Policy // the rule's, or what its PolicyFor found
	Cost   int64       // what it was asked for: as many times what the rule's Cost says as there are calls
	Shadow bool        // the rule is not enforced
	Err    error       // why a shadow rule could not decide; nothing of the Result means anything then
	algo.Result
}

// Event is what an observer is told of one decision.
type Event struct {
	Op       Op
	Outcome  Outcome
	Decision Decision // as the caller gets it
	Err      error    // as the caller gets it, else the decision's own
	Duration time.Duration
}

// Op is what was asked of a limiter.
type Op string

// The operations that are observed. Wait, Reserve and Settle show as those that
// they are made of.
const (
	OpAllow  Op = "allow"
	OpPeek   Op = "peek"
	OpRefund Op = "refund"
	OpCharge Op = "charge"
	OpReset  Op = "reset"

	opReserve Op = "reserve" // finds what a reservation is about; observed as OpAllow
)

// Outcome is what came of it, in the words of a metric's label.
type Outcome string

// The outcomes.
const (
	Allowed  Outcome = "allowed"
	Denied   Outcome = "denied"
	Degraded Outcome = "degraded" // the store failed and the failure policy decided
	Failed   Outcome = "failed"   // there is no decision
)

func outcomeOf(d *Decision, err error) Outcome {
	switch {
	case err != nil:
		return Failed
	case d.Degraded:
		return Degraded
	case d.Allowed:
		return Allowed
	}
	return Denied
}

// summarize fills in what the decision says over all rules.
func (d *Decision) summarize(results []RuleResult) {
	first := true
	for i := range results {
		r := &results[i]
		d.Skew = max(d.Skew, r.Skew)
		if r.Shadow {
			continue
		}
		if binds := r.RetryAfter > d.RetryAfter || d.Allowed && r.Remaining < d.Remaining; first || binds {
			d.Rule = r.Rule
		}
		d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
		if first || r.Remaining < d.Remaining {
			d.Remaining = r.Remaining
		}
		first = false
	}
}

// summarizeOne is summarize for one result, and whether that allows.
func (d *Decision) summarizeOne(r *RuleResult) {
	d.Allowed, d.Skew = r.Allowed || r.Shadow, r.Skew
	if !r.Shadow {
		d.Rule, d.RetryAfter, d.Remaining = r.Rule, r.RetryAfter, r.Remaining
	}
}

// enforced reports whether all rules that are enforced allow.
func enforced(results []RuleResult) bool {
	for i := range results {
		if r := &results[i]; !r.Allowed && !r.Shadow {
			return false
		}
	}
	return true
}

// look makes of a result that would have paid the one of a look.
func (r *RuleResult) look(d *demand, state []byte, now time.Time) (err error) {
	if !r.Allowed {
		return nil
	}
	if r.Result, err = d.policy.Peek(state, now, d.cost); err != nil {
		return r.broken(err)
	}
	return nil
}

// broken takes in an error of the policy, and returns it. That of a shadow rule, which
// denies nothing, is told in its result instead.
func (r *RuleResult) broken(err error) error {
	err = &RuleError{r.Rule, r.Key, err}
	if !r.Shadow {
		return err
	}
	r.Result, r.Err = algo.Result{}, err
	return nil
}
