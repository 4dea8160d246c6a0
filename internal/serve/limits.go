package serve

import (
	"math"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/config"
	"github.com/sluice-go/sluice/storage"
)

// Ask is a question to the decision service.
type Ask struct {
	Key    string   // what is limited, any bytes; rules that limit everything together do not look at it
	Limits []string // the names of the rules that are asked; none: every rule
	Cost   int64    // how many calls, or bytes where the rule counts those; 0 means 1
}

// Limits are those of one reading of the configuration.
type Limits struct {
	Rules   []config.Rule
	Service *compose.Limiter[Ask]
	Proxy   *compose.Limiter[*http.Request]
}

// NewLimits builds the limiters of rules on store.
func NewLimits(rules []config.Rule, store storage.Store) (*Limits, error) {
	var asked []compose.Rule[Ask]
	for i := range rules {
		asked = append(asked, serviceRule(&rules[i]))
	}
	service, err := compose.New(store, asked...)
	if err != nil {
		return nil, err
	}
	return &Limits{Rules: rules, Service: service}, nil
}

// serviceRule is a rule for the decision service, under the name that it has for
// requests.
func serviceRule(rule *config.Rule) compose.Rule[Ask] {
	asked := compose.Rule[Ask]{Name: rule.Name, Shadow: rule.Shadow, Cost: func(a Ask) int64 { return costOf(a, rule.Cost) }}
	if len(rule.By) > 0 {
		asked.Key = func(a Ask) string { return a.Key }
	}
	asked.Choose = func(a Ask) algo.Policy {
		if len(a.Limits) == 0 || slices.Contains(a.Limits, rule.Name) {
			return rule.Policy
		}
		return nil
	}
	return asked
}

// costOf is the cost of a question in units of a rule.
func costOf(a Ask, c config.Cost) int64 {
	n, units := max(a.Cost, 1), max(c.Units, 1)
	if units > math.MaxInt64/n {
		return math.MaxInt64 // more than any capacity
	}
	return n * units
}
