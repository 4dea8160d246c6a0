// Plans shows limits that depend on the plan of a tenant.
//
//	go run ./examples/plans
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice"
)

// call is one call of a tenant. The program looks up the plan before it calls the limiter,
// because the functions of a rule must not block.
type call struct{ tenant, plan string }

// plans have the same algorithm, so the units that a tenant has used still count after a
// change of plan.
var plans = map[string]sluice.Policy{
	"free": sluice.MustPolicy("gcra 60/hour burst=3"),
	"paid": sluice.MustPolicy("gcra 600/hour burst=30"),
}

// planOf returns the policy for a call. Internal tenants have no limit of their own. An
// unknown plan is an error, so that a misspelled plan is noticed.
func planOf(c call) (sluice.Policy, error) {
	if c.plan == "internal" {
		return nil, sluice.Skip
	}
	if policy, found := plans[c.plan]; found {
		return policy, nil
	}
	return nil, fmt.Errorf("tenant %q has the unknown plan %q", c.tenant, c.plan)
}

// planRules limit each tenant by its plan, and all tenants together.
func planRules() []sluice.Rule[call] {
	return []sluice.Rule[call]{
		{Name: "plan", Key: func(c call) string { return c.tenant }, PolicyFor: planOf},
		{Name: "everyone", Spec: "gcra 5000/min"},
	}
}

func main() {
	limiter := sluice.MustFor(nil, planRules()...)
	for _, c := range []call{
		{"acme", "free"}, {"acme", "free"}, {"acme", "free"}, {"acme", "free"},
		{"bits", "paid"}, {"cron", "internal"}, {"dodo", "piad"},
	} {
		d, err := limiter.Allow(context.Background(), c)
		fmt.Printf("%s (%s): %s\n", c.tenant, c.plan, answer(d, err))
	}
}

// answer returns the response of a server: 500 for a fault of the program, and 503 for a
// failure of the store.
func answer(d sluice.Decision, err error) string {
	var rule *sluice.RuleError
	switch {
	case errors.As(err, &rule):
		return fmt.Sprintf("500, rule %s: %v", rule.Rule, rule.Err)
	case err != nil:
		return "503, " + err.Error()
	case !d.Allowed:
		return "429, denied by " + d.Rule
	}
	return "200, limited by " + d.Rule
}
