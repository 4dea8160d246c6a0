// Plans shows limits that depend on the plan of a tenant.
//
//	go run ./examples/plans
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
)

func main() {
	limiter, err := newLimiter(nil)
	if err != nil {
		log.Fatal(err)
	}
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
	var rule *compose.RuleError
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
