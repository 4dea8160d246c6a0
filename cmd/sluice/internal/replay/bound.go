package replay

import (
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Bound returns the most that one key can be admitted in any interval as long as the period of the
// policy's limit. It is in units, or in requests if the parts of a stack cost different numbers of
// units.
func Bound(p algo.Policy) (most int64, inRequests bool) {
	period := p.Limit().Period
	parts := Parts(p)
	for _, part := range parts {
		inRequests = inRequests || Cost(part) != Cost(parts[0])
	}
	if !inRequests {
		return p.Bound(period), false
	}
	for i, part := range parts {
		if b := part.Bound(period) / Cost(part); i == 0 || b < most {
			most = b
		}
	}
	return most, true
}

// Parts returns the parts of a stack, or else the policy itself.
func Parts(p algo.Policy) []algo.Policy {
	if stack, ok := p.(interface{ Parts() []algo.Policy }); ok {
		return stack.Parts()
	}
	return []algo.Policy{p}
}

// Cost returns the cost in the options of a policy that has no parts.
func Cost(p algo.Policy) int64 {
	r, err := p.Peek(nil, time.Unix(0, 0), 0)
	if err != nil {
		return 1
	}
	return max(1, r.Cost)
}
