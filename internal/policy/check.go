package policy

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Check returns why a policy denies everything, as the zero value of its type does. It returns nil if the policy
// allows, or gives no reason.
func Check(p algo.Policy) error {
	if stack, ok := p.(interface{ Parts() []algo.Policy }); ok && len(stack.Parts()) == 0 {
		return errors.New("a Stack without parts")
	}
	r, err := p.Peek(nil, time.Unix(0, 0), 1)
	if err != nil || r.Allowed { // then a policy of a user can have any Limit
		return nil
	}
	return p.Limit().Validate()
}

// ProgramOf returns the program of a policy, or nil if it has none.
func ProgramOf(p algo.Policy) *algo.Program {
	if portable, ok := p.(algo.Portable); ok {
		if program, ok := portable.Program(); ok {
			return &program
		}
	}
	return nil
}
