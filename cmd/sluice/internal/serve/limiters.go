package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/denyall"
	"github.com/sluice-go/sluice/storage"
)

// decisionRequest is a request to the decision service.
type decisionRequest struct {
	Key   string   // any bytes; ignored by rules whose requests share one limit
	Rules []string // the names of the rules to decide by; none: all rules
	Cost  int64    // the number of calls, or of bytes for a rule with cost: bytes; at least 1
}

// limiters has the limiters of one version of the rules. It is immutable.
type limiters struct {
	service *limiter
	proxy   *sluice.Limiter[*http.Request]

	names     []string // of the rules of the decision service; the other rules are for the proxy alone
	byteRules []string // the names of those with cost: bytes
	file      *config.File
	handler   http.Handler // the proxy with these limits; nil if there is no proxy
	probe     decisionProbe
}

// proxyOnly reports whether the decision service cannot decide by a rule.
func proxyOnly(r *config.Rule) bool { return r.HoldsUnits() || r.NeedsResponse() }

const whyProxyOnly = "the decision service sees neither the response nor the end of a request"

// newLimiters returns the limiters of the rules in a file.
func (s *Server) newLimiters(file *config.File) (l *limiters, err error) {
	var store storage.Store = missingStore{}
	if !s.missing.Load() {
		store = s.store.Store
	}
	l = &limiters{file: file}
	var service []sluice.Rule[decisionRequest]
	for i := range file.Rules {
		rule := &file.Rules[i]
		if rule.Cost.Bytes {
			l.byteRules = append(l.byteRules, rule.Name)
		}
		if !proxyOnly(rule) {
			l.names = append(l.names, rule.Name)
			service = append(service, serviceRule(rule))
		} else if s.transport == nil {
			return nil, fmt.Errorf("rule %s: %s; use the proxy (--upstream), or give the rule a rate such as gcra 100/m and remove count and actual", rule.Name, whyProxyOnly)
		}
	}
	unknown := cmp.Or(s.options.MaxBody, math.MaxInt64) // the assumed size of a request body of unknown length
	if l.proxy, err = s.requests.New(store, file.HTTPRules(unknown, s.warnNoActual)...); err != nil {
		return nil, err
	}
	if l.probe, err = s.newDecisionProbe(file); err != nil {
		return nil, err
	}
	l.service, err = s.service.New(store, service...)
	return l, err
}

// serviceRule returns a rule for the decision service, under the same name as in the proxy. It
// ignores methods, paths and except: the caller chooses the rules that apply.
func serviceRule(rule *config.Rule) sluice.Rule[decisionRequest] {
	served := sluice.Rule[decisionRequest]{Name: rule.Name, Shadow: rule.Shadow}
	if rule.Cost.Units > 1 {
		served.Cost = func(decisionRequest) int64 { return rule.Cost.Units }
	}
	if len(rule.By) > 0 {
		served.Key = func(r decisionRequest) string { return r.Key }
	}
	served.PolicyFor = func(r decisionRequest) (algo.Policy, error) {
		switch {
		case !r.selects(rule), lacksKey(r, rule) && rule.Missing == config.MissingSkip:
			return nil, sluice.Skip
		case lacksKey(r, rule) && rule.Missing == config.MissingDeny:
			return denyall.Policy{Policy: rule.Policy}, nil
		}
		return rule.Policy, nil
	}
	return served
}

// selects reports whether the request names the rule, or no rule.
func (r decisionRequest) selects(rule *config.Rule) bool {
	return len(r.Rules) == 0 || slices.Contains(r.Rules, rule.Name)
}

// lacksKey reports whether the key is empty and the rule has fields that a request may lack.
func lacksKey(r decisionRequest, rule *config.Rule) bool {
	return r.Key == "" && len(rule.MayLack()) > 0
}

// check returns the problem of a request for a rule that the service does not know, or without a key that a rule
// needs: the rule would limit such a request by its address, which the service does not know.
func (l *limiters) check(request decisionRequest) *problem {
	unknown := func(format string, args ...any) *problem {
		p := newProblem("unknown-rule", format, args...)
		p.Field, p.Rules = "rule", l.names
		return p
	}
	if len(l.names) == 0 {
		return unknown("all rules are for the proxy alone: %s", whyProxyOnly)
	}
	for _, name := range request.Rules {
		switch {
		case slices.Contains(l.names, name):
		case slices.ContainsFunc(l.file.Rules, func(r config.Rule) bool { return r.Name == name }):
			return unknown("rule %q is for the proxy alone: %s; the member rules lists the names of all other rules", name, whyProxyOnly)
		default:
			return unknown("unknown rule %q; the member rules lists the names of all rules", name)
		}
	}
	for i := range l.file.Rules {
		rule := &l.file.Rules[i]
		if !proxyOnly(rule) && request.selects(rule) && lacksKey(request, rule) && rule.MissingByIP() {
			return invalid("key", "the key is empty, and rule %s is by %s; send its value, or ip:ADDRESS for a client without it, such as ip:203.0.113.7", rule.Name, rule.ByString())
		}
	}
	return nil
}

// warnNoActual logs that a response does not report the actual cost.
func (s *Server) warnNoActual(r *config.Rule, problem string) {
	s.sampled.Warn("a response does not report its cost, so the estimate stays charged; set the header in the upstream, as a whole number", "rule", r.Name, "header", r.Cost.Actual, "problem", problem)
}
