package compose_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

var errPlan = errors.New("no such plan")

// plans are the faulty answers of a PolicyFor, by the user of the call, and what the
// error must say of them.
var plans = map[string]struct {
	err  error
	says string
}{
	"nothing":      {nil, `compose: rule "plan": PolicyFor returned no policy and no error; return Skip as the error if the rule does not apply`},
	"an error":     {errPlan, `compose: rule "plan": PolicyFor: no such plan`},
	"an outage":    {fmt.Errorf("plans: %w", storage.ErrUnavailable), `compose: rule "plan": PolicyFor: plans: ` + storage.ErrUnavailable.Error()},
	"wrapped Skip": {fmt.Errorf("plan: %w", compose.Skip), `compose: rule "plan": PolicyFor: plan: compose: the rule does not apply`},
}

// operations are all that can be asked of a limiter. Each gives the error, and whether
// the call was allowed.
var operations = map[string]func(*compose.Limiter[call], call) (bool, error){
	"Allow": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.Allow(background, in)
		return d.Allowed, err
	},
	"AllowN": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.AllowN(background, in, 3)
		return d.Allowed, err
	},
	"Wait": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.Wait(background, in)
		return d.Allowed, err
	},
	"Peek": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.Peek(background, in)
		return d.Allowed, err
	},
	"Refund": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.Refund(background, in, 1)
		return d.Allowed, err
	},
	"Charge": func(l *compose.Limiter[call], in call) (bool, error) {
		d, err := l.Charge(background, in, 1)
		return d.Allowed, err
	},
	"Reserve": func(l *compose.Limiter[call], in call) (bool, error) {
		r, d, err := l.Reserve(background, in, 1)
		return d.Allowed || r != nil, err
	},
	"Reset": func(l *compose.Limiter[call], in call) (bool, error) {
		return false, l.Reset(background, in)
	},
}

// planned is a rule whose PolicyFor gives the answers above, and else a policy.
func planned(t *testing.T, shadow bool) compose.Rule[call] {
	return compose.Rule[call]{Name: "plan", Key: byUser, Shadow: shadow, PolicyFor: func(c call) (algo.Policy, error) {
		if plan, ok := plans[c.user]; ok {
			return nil, plan.err
		}
		return limitOf(t, "gcra 10/m"), nil
	}}
}

// A PolicyFor that fails is the caller's mistake, and no failure of the store: it fails
// closed, in every operation, wherever the limiter decides.
func TestAPolicyForThatFailsFailsClosed(t *testing.T) {
	other := rulesOf(t, "gcra 10/m", "gcra 20/m", "gcra 30/m")
	for more := range 4 { // beside one rule, beside a few, and beside many
		for _, p := range []compose.FailurePolicy{compose.FailClosed, compose.FailOpen, compose.FailLocal} {
			for where, store := range map[string]storage.Store{
				"in place": new(memory.Store), "by the engine": swapOnly{new(memory.Store)}, "in an outage": down{errLasting},
			} {
				var told []compose.Event
				o := compose.Options[call]{OnFailure: p}
				observed := compose.Options[call]{OnFailure: p, Observer: func(e compose.Event) { told = append(told, e) }}
				rules := append(other[:more:more], planned(t, more == 2))
				l, err := o.New(store, rules...)
				require.NoError(t, err)
				watched, err := observed.New(store, rules...)
				require.NoError(t, err)
				for user, plan := range plans {
					for name, ask := range operations {
						what := fmt.Sprintf("%s, %s, %s, beside %d rules, OnFailure %d", user, name, where, more, p)
						for _, l := range []*compose.Limiter[call]{l, watched} {
							told = nil
							allowed, err := ask(l, call{user: user})
							require.False(t, allowed, what)
							require.EqualError(t, err, plan.says, what)
							var rule *compose.RuleError
							require.ErrorAs(t, err, &rule, what)
							require.Equal(t, "plan", rule.Rule)
							if plan.err != nil {
								require.ErrorIs(t, err, plan.err, what)
							}
						}
						require.Len(t, told, 1, what)
						require.Equal(t, compose.Failed, told[0].Outcome, what)
						require.False(t, told[0].Decision.Allowed, what)
					}
				}
			}
		}
	}
}

// Nothing is paid under the other rules of a decision that fails.
func TestAPolicyForThatFailsCostsNothing(t *testing.T) {
	for _, store := range []storage.Store{new(memory.Store), swapOnly{new(memory.Store)}} {
		l, err := compose.New(store, append(rulesOf(t, "gcra 10/m"), planned(t, false))...)
		require.NoError(t, err)
		for user := range plans {
			_, err = l.Allow(background, call{user: user})
			require.Error(t, err)
		}
		d, err := l.Peek(background, call{user: "ann"})
		require.EqualValues(t, 10, must(t, d, err).Results[0].Remaining)
	}
}

// Skip leaves the other rules as they are.
func TestARuleThatIsSkippedDoesNotCount(t *testing.T) {
	skipped := compose.Rule[call]{Name: "plan", PolicyFor: func(call) (algo.Policy, error) { return limitOf(t, "gcra 1/h"), compose.Skip }}
	for _, store := range []storage.Store{new(memory.Store), swapOnly{new(memory.Store)}} {
		l, err := compose.New(store, append(rulesOf(t, "gcra 2/h"), skipped)...)
		require.NoError(t, err)
		for _, want := range []bool{true, true, false} {
			d, err := l.Allow(context.Background(), call{})
			require.Equal(t, want, must(t, d, err).Allowed)
			require.Len(t, d.Results, 1)
		}
		require.NoError(t, l.Reset(background, call{}))
	}
}
