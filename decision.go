package sluice

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage/driver"
)

// ErrSkew is in Decision.Err if a stored state is ahead of the clock by more than Options.MaxSkew.
var ErrSkew = errors.New("sluice: the stored states are ahead of the clock")

// Decision is the answer of a [Limiter] to one call. The zero Decision allows nothing.
type Decision struct {
	Allowed bool
	// Rule is the enforced rule with the longest wait or, if the call is allowed, with the least Remaining. It is empty if none
	// applied.
	Rule string
	// RetryAfter is the time until the same call can be allowed, if no other call is charged. It is 0 if the call is allowed, and
	// [algo.Never] if waiting does not help.
	RetryAfter time.Duration
	// Remaining is the least that is left under an enforced rule, or 0 if none applied.
	Remaining int64
	// Results are those of the rules that applied, in their order. A rule whose Cost is 0 has none.
	Results []RuleResult
	// Skew is how far the latest stored state was ahead of the clock, or 0.
	Skew time.Duration

	// Cached reports a denial from the denial cache. Its RetryAfter ignores what other limiters did meanwhile.
	Cached bool
	// Prepaid reports that the call was bought ahead; see [Prepay]. The other fields are those of the purchase, so Remaining does
	// not include bought calls.
	Prepaid bool
	// Degraded reports that the store failed and Options.OnFailure decided.
	Degraded bool
	// Err did not prevent the decision: it is the error of the store if Degraded is set, or ErrSkew.
	Err error
	// At is the time of the decision. It is zero if no rule decided.
	At time.Time
	// Attempts is how often the rules were evaluated: more than once after conflicts and lost replies.
	Attempts int
}

// RuleResult is the result of one rule.
type RuleResult struct {
	Rule        string
	Key         string      // from Rule.Key
	Policy      algo.Policy // of the rule, or from PolicyFor; after a renewal or release of held units, that of algo.Holder.Held
	Shadow      bool
	held        bool  // Policy is one that algo.Holder.Held returned
	moved       bool  // the state was moved to the time of the decision; see callMoved
	Err         error // why a shadow rule could not decide; Result is zero then, except for Cost
	algo.Result       // Cost is that of all calls of the decision under this rule
}

// Event describes one operation to Options.Observer.
type Event struct {
	Op       Op
	Outcome  Outcome
	Decision Decision
	Err      error // of the operation, or else Decision.Err
	Duration time.Duration
}

// Op is an operation of a limiter.
type Op string

// The operations that an Observer sees. Wait, Reserve and Renew appear as allow, Release as refund, and Clear as one reset without
// results. Settle and SettleFor appear as refund or charge, or not at all if there is nothing to correct.
const (
	OpAllow  Op = "allow"
	OpPeek   Op = "peek"
	OpRefund Op = "refund"
	OpCharge Op = "charge"
	OpReset  Op = "reset"
)

// opNames are the operations by their numbers in package driver.
var opNames = [...]Op{driver.Allow: OpAllow, driver.Refund: OpRefund, driver.Charge: OpCharge, driver.Peek: OpPeek, driver.Reset: OpReset}

// Outcome is the outcome of an operation.
type Outcome string

// The outcomes.
const (
	Allowed  Outcome = "allowed"
	Denied   Outcome = "denied"
	Degraded Outcome = "degraded" // the store failed and Options.OnFailure decided
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

// conclude sets the fields other than Results after a decision of the engine.
func (d *Decision) conclude(allowed bool, at time.Time, attempts int) {
	d.Allowed, d.At, d.Attempts = allowed, at, attempts
	d.summarize()
}

// summarize sets the fields that combine all results. Allowed is set before.
func (d *Decision) summarize() {
	first := true
	for i := range d.Results {
		r := &d.Results[i]
		d.Skew = max(d.Skew, r.Skew)
		if r.Shadow {
			continue
		}
		if first || r.RetryAfter > d.RetryAfter || d.Allowed && r.Remaining < d.Remaining {
			d.Rule = r.Rule
		}
		d.RetryAfter = max(d.RetryAfter, r.RetryAfter)
		if first || r.Remaining < d.Remaining {
			d.Remaining = r.Remaining
		}
		first = false
	}
}

// fail returns a RuleError for an error of the policy. For a shadow rule it returns nil and
// puts the RuleError into the result.
func (r *RuleResult) fail(err error) error {
	err = &RuleError{r.Rule, r.Key, err}
	if !r.Shadow {
		return err
	}
	r.Result, r.Err = algo.Result{Cost: r.Cost}, err
	return nil
}
