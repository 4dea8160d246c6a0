package storagetest

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// portable is a policy with its program.
type portable struct {
	algo.Policy
	program algo.Program
}

// These policies are used by the laws of servers.
var (
	threeAnHour    = hourly(3)
	tenAnHour      = hourly(10)
	fiftyAnHour    = hourly(50)
	thousandAnHour = hourly(1000)

	fourTokens  = newPortable(tokenbucket.New(tokenbucket.Options{Limit: algo.Per(10, time.Hour), Burst: 4}))
	fiveAWindow = newPortable(fixedwindow.New(fixedwindow.Options{Limit: algo.Per(5, time.Hour)}))
	sixMoving   = newPortable(movingwindow.New(movingwindow.Options{Limit: algo.Per(6, time.Hour), Slots: 4}))

	portables = []*portable{threeAnHour, tenAnHour, fiftyAnHour, thousandAnHour, fourTokens, fiveAWindow, sixMoving}
)

func hourly(count int64) *portable {
	return newPortable(gcra.New(gcra.Options{Limit: algo.Per(count, time.Hour)}))
}

// newPortable panics if it cannot make the policy, which has fixed options.
func newPortable[P algo.Portable](policy P, err error) *portable {
	program, ok := policy.Program()
	if err != nil || !ok {
		panic(fmt.Sprintf("storagetest: the policy %v has no program: %v", policy, err))
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
