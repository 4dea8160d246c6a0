package storagetest

import (
	"fmt"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// portable is a policy with its program.
type portable struct {
	algo.Policy
	program algo.Program
}

// These policies are used by the laws of servers.
var (
	threeAnHour    = newPortable("gcra 3/h")
	tenAnHour      = newPortable("gcra 10/h")
	fiftyAnHour    = newPortable("gcra 50/h")
	thousandAnHour = newPortable("gcra 1000/h")

	fourTokens  = newPortable("tokenbucket 10/h burst=4")
	fiveAWindow = newPortable("fixedwindow 5/h")
	sixMoving   = newPortable("movingwindow 6/h slots=4")
	stack       = newPortable("all(gcra 10/h; fixedwindow 12/h; all(movingwindow 30/d slots=6; tokenbucket 9/h))")

	portables = []*portable{threeAnHour, tenAnHour, fiftyAnHour, thousandAnHour, fourTokens, fiveAWindow, sixMoving, stack}
)

// newPortable panics if it cannot make the policy.
func newPortable(spec string) *portable {
	policy, err := compose.ParsePolicy(spec)
	if err != nil {
		panic(err)
	}
	program, ok := policy.(algo.Portable).Program()
	if !ok {
		panic(fmt.Sprintf("storagetest: the policy %v has no program", policy))
	}
	return &portable{policy, program}
}

// policyOf returns the policy of a program that a law uses, or nil.
func policyOf(p *algo.Program) algo.Policy {
	for _, known := range portables {
		if p == &known.program {
			return known.Policy
		}
	}
	return nil
}
