// Package costed pairs a policy with the cost of a request.
package costed

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// Policy is a policy, and how many units a request takes that has no cost of its own.
type Policy struct {
	algo.Policy
	Cost int64 // at least 1
}

// Parse parses a spec that can end with cost=N. Its errors are those of [compose.ParsePolicyWithCost].
func Parse(spec string) (p Policy, err error) {
	p.Policy, p.Cost, err = compose.ParsePolicyWithCost(spec)
	return p, err
}

// ParseRate is Parse for a program that decides requests but does not know when they end. It refuses a policy whose units are held,
// such as inflight 20 ttl=30s. The error says why, such as "access logs do not show when a request ends".
func ParseRate(spec, why string) (p Policy, err error) {
	if p, err = Parse(spec); err != nil {
		return p, err
	}
	if _, ok := p.Policy.(algo.Holder); ok {
		word := strings.Fields(spec)[0]
		return Policy{}, &compose.SpecError{
			Spec: spec, Offset: strings.Index(spec, word), Word: word,
			Problem: fmt.Sprintf("%s limits requests at the same time, and %s; want a rate, such as gcra 100/m", word, why),
		}
	}
	return p, nil
}

// One returns a policy whose requests take 1 unit.
func One(p algo.Policy) Policy { return Policy{p, 1} }

// String returns the spec, with the cost if it is not 1. Parse is its inverse.
func (p Policy) String() string {
	if p.Cost == 1 {
		return p.Policy.String()
	}
	return fmt.Sprintf("%v cost=%d", p.Policy, p.Cost)
}
