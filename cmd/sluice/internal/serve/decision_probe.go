package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// decisionProbe finds out whether the store can decide the requests of one version of the rules. A store
// that can be written may still refuse decisions: on PostgreSQL and Redis they run programs, which need
// rights of their own. The zero decisionProbe does nothing.
type decisionProbe struct {
	own    []*sluice.Limiter[string] // one for each kind of policy, and one for rules that apply together; by the key
	shared *sluice.Limiter[string]   // the rules under which all requests share one limit
}

// newDecisionProbe returns the probe of the rules in a file.
func (s *Server) newDecisionProbe(file *config.File) (p decisionProbe, err error) {
	if _, ok := s.store.Store.(*memory.Store); ok {
		return p, nil // a memory store cannot fail
	}
	options := sluice.Options[string]{
		Namespace: s.options.Namespace, Timeout: probeTime, CircuitOpenAfter: -1, DenialCacheTTL: -1,
		OnFailure: sluice.FailOpen, // tries for a shorter time if the server refuses connections
	}
	var kinds, shared []sluice.Rule[string]
	unconditional := 0
	for i := range file.Rules {
		rule := &file.Rules[i]
		short, kind := shortLived(rule.Policy)
		own := sluice.Rule[string]{Name: "probe of " + kind, Key: func(key string) string { return key }, Policy: short} // no rule of a file has a name with spaces
		if !slices.ContainsFunc(kinds, func(k sluice.Rule[string]) bool { return k.Name == own.Name }) {
			kinds = append(kinds, own)
		}
		if !rule.IsForAll() {
			continue
		}
		if unconditional++; len(rule.By) == 0 && !rule.Shadow {
			shared = append(shared, sluice.Rule[string]{Name: rule.Name, Policy: rule.Policy})
		}
	}
	limiters := slices.Collect(slices.Chunk(kinds, 1))
	if unconditional > 1 {
		again := kinds[0]
		again.Name += " again"
		limiters = append(limiters, append(kinds, again))
	}
	for _, rules := range limiters {
		l, err := options.New(s.store.Store, rules...)
		if err != nil {
			return p, err
		}
		p.own = append(p.own, l)
	}
	p.shared, err = options.New(s.store.Store, shared...)
	return p, err
}

// shortLived returns a policy that stores decide like p, but whose states expire soon, and its kind. Policies without a program, such as
// calendar, are all decided by swaps.
func shortLived(p algo.Policy) (short algo.Policy, kind string) {
	spec := compose.Kind(p) + " 1000/s"
	stack, isStack := p.(*compose.Stack)
	_, isHolder := p.(algo.Holder)
	switch {
	case policy.ProgramOf(p) == nil:
		return struct{ algo.Policy }{sluice.MustPolicy("gcra 1000/s")}, "swaps"
	case isHolder:
		spec = "inflight 1000 ttl=1s"
	case isStack:
		var parts []string
		for _, part := range stack.Parts() {
			parts = append(parts, compose.Kind(part)+" 1000/s")
		}
		spec = "all(" + strings.Join(parts, "; ") + ")"
	}
	short = sluice.MustPolicy(spec)
	return short, compose.Kind(short)
}

// decide makes decisions on keys of its own: for each kind of policy, and for several keys, all or nothing. The
// first decision on a key creates a record, and the second replaces it.
func (p *decisionProbe) decide(ctx context.Context) error {
	for _, l := range p.own {
		key := rand.Text()
		for range 2 {
			d, err := l.Allow(ctx, key)
			if err = cmp.Or(err, d.Err); err != nil {
				return fmt.Errorf("the store makes no decisions: %w; check the rights of the user in the store, and restart sluice if a table or a function was dropped", err)
			}
		}
	}
	return nil
}

// run finds out whether requests get decisions. It also reads the states of rules under which all requests share one
// limit: if such a state cannot be read, no request gets a decision.
func (p *decisionProbe) run(ctx context.Context) error {
	err := p.decide(ctx)
	if err != nil || p.shared == nil {
		return err
	}
	d, err := p.shared.Peek(ctx, "")
	if err = cmp.Or(err, d.Err); err != nil && isFault(err) {
		return fmt.Errorf("%w; %s", err, unreadableRemedy)
	}
	return err
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
