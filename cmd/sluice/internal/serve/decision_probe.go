package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// decisionProbe finds out whether the store can decide the requests of one version of the rules. A store
// that can be written may still refuse decisions: on PostgreSQL and Redis they run programs, which need
// rights of their own. The zero decisionProbe does nothing.
type decisionProbe struct {
	own      *sluice.Limiter[ownKey] // with a rule for each kind of policy
	kinds    []string                // the names of its rules
	combined bool                    // several rules apply to all requests
	shared   *sluice.Limiter[struct{}]
}

// ownKey is a random key, and the name of the rule that applies to it; "" is all rules.
type ownKey struct{ key, kind string }

// newDecisionProbe returns the probe of the rules in a file.
func (s *Server) newDecisionProbe(file *config.File) (p decisionProbe, err error) {
	if _, ok := s.store.Store.(*memory.Store); ok {
		return p, nil // a memory store cannot fail
	}
	var policies []algo.Policy // of the kinds
	unconditional := 0
	var shared []sluice.Rule[struct{}]
	for i := range file.Rules {
		rule := &file.Rules[i]
		policy, kind, err := shortLived(rule.Policy)
		if err != nil {
			return p, err
		}
		if name := "probe of " + kind; !slices.Contains(p.kinds, name) { // no rule of a file has a name with spaces
			p.kinds, policies = append(p.kinds, name), append(policies, policy)
		}
		if len(rule.Methods) > 0 || len(rule.Paths) > 0 {
			continue
		}
		if unconditional++; len(rule.By) == 0 && !rule.Shadow {
			shared = append(shared, sluice.Rule[struct{}]{Name: rule.Name, Policy: rule.Policy})
		}
	}
	if p.combined = unconditional > 1; p.combined && len(p.kinds) == 1 {
		p.kinds, policies = append(p.kinds, p.kinds[0]+" again"), append(policies, policies[0])
	}
	var own []sluice.Rule[ownKey]
	for i, name := range p.kinds {
		own = append(own, ownRule(name, policies[i]))
	}
	options := sluice.Options[ownKey]{Namespace: s.options.Namespace, Timeout: probeTime, CircuitOpenAfter: -1, DenialCacheTTL: -1}
	if p.own, err = options.New(s.store.Store, own...); err != nil {
		return p, err
	}
	p.shared, err = sluice.Options[struct{}]{Namespace: s.options.Namespace, Timeout: probeTime, CircuitOpenAfter: -1}.New(s.store.Store, shared...)
	return p, err
}

func ownRule(name string, policy algo.Policy) sluice.Rule[ownKey] {
	return sluice.Rule[ownKey]{
		Name: name,
		Key:  func(k ownKey) string { return k.key },
		PolicyFor: func(k ownKey) (algo.Policy, error) {
			if k.kind != "" && k.kind != name {
				return nil, sluice.Skip
			}
			return policy, nil
		},
	}
}

// algorithmName matches the names of algorithms in the result of [config.Algorithms].
var algorithmName = regexp.MustCompile(`([a-z]+)([;)]|$)`)

// shortLived returns a policy that stores decide like p, but whose states expire soon.
func shortLived(p algo.Policy) (short algo.Policy, kind string, err error) {
	kind = config.Algorithms(p)
	if short, err = compose.ParsePolicy(algorithmName.ReplaceAllString(kind, "$1 1000/s$2")); err != nil {
		return nil, "", err
	}
	portable, ok := p.(algo.Portable)
	if ok {
		_, ok = portable.Program()
	}
	if !ok { // its numbers are too large for a program; such a policy is decided by swaps
		short, kind = struct{ algo.Policy }{short}, kind+" without a program"
	}
	return short, kind, nil
}

// decide makes decisions on keys of its own: one for each kind of policy, one that finds a record, and one for
// several keys, all or nothing.
func (p *decisionProbe) decide(ctx context.Context) error {
	if len(p.kinds) == 0 {
		return nil
	}
	first := ownKey{rand.Text(), p.kinds[0]}
	keys := []ownKey{first, first}
	for _, kind := range p.kinds[1:] {
		keys = append(keys, ownKey{rand.Text(), kind})
	}
	if p.combined {
		keys = append(keys, ownKey{key: rand.Text()})
	}
	for _, key := range keys {
		if _, err := p.own.Allow(ctx, key); err != nil {
			return fmt.Errorf("the store makes no decisions: %w; check the rights of the user in the store, and restart sluice if a table or a function was dropped", err)
		}
	}
	return nil
}

// readShared reads the states of rules under which all requests share one limit: if such a state cannot be
// read, no request gets a decision.
func (p *decisionProbe) readShared(ctx context.Context) error {
	if p.shared == nil {
		return nil
	}
	if _, err := p.shared.Peek(ctx, struct{}{}); err != nil {
		if isFault(err) {
			return fmt.Errorf("%w; %s", err, unreadableRemedy)
		}
		return err
	}
	return nil
}

// isFault reports whether requests fail because of err under every --on-failure.
func isFault(err error) bool {
	return problemOfError(err).Status == http.StatusInternalServerError
}

// isPermanent reports whether another attempt cannot help after an error of a store or a limiter.
func isPermanent(err error) bool {
	return !slices.ContainsFunc([]error{storage.ErrUnavailable, storage.ErrContended, storage.ErrOutcomeUnknown, context.DeadlineExceeded, context.Canceled},
		func(temporary error) bool { return errors.Is(err, temporary) })
}
