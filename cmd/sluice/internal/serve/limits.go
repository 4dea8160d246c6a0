package serve

import (
	"math"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
	"github.com/sluice-go/sluice/storage"
)

// DecisionRequest is a question to the decision service.
type DecisionRequest struct {
	Key    string   // what is limited, any bytes; rules that limit everything together do not look at it
	Limits []string // the names of the rules that are asked; none: every rule
	Cost   int64    // how many calls, or bytes where the rule counts those; 0 means 1
}

// Limits are those of one reading of the configuration. They are immutable.
type Limits struct {
	Rules   []config.Rule
	Service *compose.Limiter[DecisionRequest]
	Proxy   *compose.Limiter[*http.Request]

	file    *config.File
	unknown int64        // see base
	front   http.Handler // Proxy with the upstream behind it; nil if there is none
}

// base is what the limiters of all readings are made on.
type base struct {
	store    storage.Store
	service  compose.Options[DecisionRequest]
	requests compose.Options[*http.Request]
	unknown  int64 // bytes of a request that does not tell its length
}

func (b *base) limits(file *config.File) (l *Limits, err error) {
	l = &Limits{Rules: file.Rules, file: file, unknown: b.unknown}
	requests, err := file.HTTPRules(b.unknown)
	if err != nil {
		return nil, err
	}
	if l.Proxy, err = b.requests.New(b.store, requests...); err != nil {
		return nil, err
	}
	var asked []compose.Rule[DecisionRequest]
	for i := range file.Rules {
		asked = append(asked, serviceRule(&file.Rules[i]))
	}
	l.Service, err = b.service.New(b.store, asked...)
	return l, err
}

// serviceRule is a rule for the decision service, under the name that it has for
// requests. Which requests it is for, whoever asks has found out by himself.
func serviceRule(rule *config.Rule) compose.Rule[DecisionRequest] {
	asked := compose.Rule[DecisionRequest]{Name: rule.Name, Shadow: rule.Shadow, Cost: func(a DecisionRequest) int64 { return costOf(a, rule.Cost) }}
	if len(rule.By) > 0 {
		asked.Key = func(a DecisionRequest) string { return a.Key }
	}
	asked.PolicyFor = func(a DecisionRequest) (algo.Policy, error) {
		switch {
		case !a.asks(rule):
			return nil, compose.Skip
		case lacksCaller(a, rule) && rule.Missing == config.MissingSkip:
			return nil, compose.Skip
		case lacksCaller(a, rule) && rule.Missing == config.MissingDeny:
			return denyall.Policy{Policy: rule.Policy}, nil
		}
		return rule.Policy, nil
	}
	return asked
}

// asks reports whether the question is about the rule.
func (a DecisionRequest) asks(rule *config.Rule) bool {
	return len(a.Limits) == 0 || slices.Contains(a.Limits, rule.Name)
}

// lacksCaller reports whether the question has no key for a rule whose requests may lack
// one. An empty key is a missing one here.
func lacksCaller(a DecisionRequest, rule *config.Rule) bool {
	return a.Key == "" && len(rule.MayLack()) > 0
}

// withoutAddress finds a rule that would limit by address what has no key, because the
// service does not know the address. It returns nil if there is none.
func (l *Limits) withoutAddress(a DecisionRequest) *config.Rule {
	for i := range l.Rules {
		rule := &l.Rules[i]
		if a.asks(rule) && lacksCaller(a, rule) && rule.MissingByIP() {
			return rule
		}
	}
	return nil
}

// costOf is the cost of a question in units of a rule.
func costOf(a DecisionRequest, c config.Cost) int64 {
	n, units := max(a.Cost, 1), max(c.Units, 1)
	if units > math.MaxInt64/n {
		return math.MaxInt64 // more than any capacity
	}
	return n * units
}

// bytes are the names of the rules whose cost is a size.
func (l *Limits) bytes() (names []string) {
	for i := range l.Rules {
		if l.Rules[i].Cost.Bytes {
			names = append(names, l.Rules[i].Name)
		}
	}
	return names
}

// needsLength reports whether a rule would deny the request for no other reason than
// that it does not tell its length.
func (l *Limits) needsLength(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return false
	}
	for i := range l.Rules {
		rule := &l.Rules[i]
		if rule.Cost.Bytes && !rule.Shadow && rule.Applies(r) && l.unknown > config.Capacity(rule.Policy) {
			return true
		}
	}
	return false
}
