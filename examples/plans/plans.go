package main

import (
	"fmt"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
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
// unknown plan is an error, so a misspelled plan does not mean that there is no limit.
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

func newLimiter(store storage.Store) (*sluice.Limiter[call], error) {
	return sluice.For(store, planRules()...)
}
