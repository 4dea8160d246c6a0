// Package costed pairs a policy with the cost of a request.
package costed

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

// Policy is a policy, and how many units a request takes that has no cost of its own.
type Policy struct {
	algo.Policy
	Cost int64 // at least 1
}

// costWord finds cost=N at the end of a spec, after other words.
var costWord = regexp.MustCompile(`[\s\v\x{85}\p{Z})](cost=([^();\s\v\x{85}\p{Z}]*))[\s\v\x{85}\p{Z}]*$`)

// Parse parses a spec whose last word can be cost=N, the units that a request costs. Each error is a [*compose.SpecError].
func Parse(spec string) (Policy, error) {
	rest, cost := spec, int64(1)
	if at := costWord.FindStringSubmatchIndex(spec); at != nil {
		word, value := spec[at[2]:at[3]], spec[at[4]:at[5]]
		var err error
		if cost, err = strconv.ParseInt(value, 10, 64); err != nil || cost < 1 {
			problem := fmt.Sprintf("cost= takes a whole number of units from 1, not %s", errtext.Quote(value))
			return Policy{}, &compose.SpecError{Spec: spec, Offset: at[2], Word: word, Problem: problem}
		}
		rest = spec[:at[2]]
	}
	p, err := compose.ParsePolicy(rest)
	if fault := (*compose.SpecError)(nil); errors.As(err, &fault) {
		fault.Spec = spec
		return Policy{}, fault
	}
	return Policy{p, cost}, err
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
