package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

// fingerprintTimeout limits reading and writing the fingerprints of all rules.
const fingerprintTimeout = 5 * time.Second

// mergeFingerprints adds the fingerprints of rules to the known ones. It returns an error if a
// rule has another fingerprint than before, because the store still has its old states.
func mergeFingerprints(rules []config.Rule, known map[string]string) (map[string]string, error) {
	all := maps.Clone(known)
	if all == nil {
		all = make(map[string]string)
	}
	for _, r := range rules {
		fingerprintText := fingerprint(r.Policy)
		if before, ok := all[r.Name]; ok && before != fingerprintText {
			return nil, &ruleChangedError{r.Name, before, fingerprintText}
		}
		all[r.Name] = fingerprintText
	}
	return all, nil
}

// fingerprint returns the algorithms of a policy. Policies with different fingerprints cannot
// read each other's states.
func fingerprint(p algo.Policy) string {
	stack, ok := p.(*compose.Stack)
	if !ok {
		word, _, _ := strings.Cut(p.String(), " ")
		return word
	}
	var parts []string
	for _, part := range stack.Parts() {
		parts = append(parts, fingerprint(part))
	}
	return "all(" + strings.Join(parts, "; ") + ")"
}

// newName is the remedy for a rule that cannot read its states.
const newName = "give the rule a new name, or start with another --namespace (with --limit only the latter works)"

// ruleChangedError means that a rule cannot read its stored states.
type ruleChangedError struct{ rule, before, now string }

func (e *ruleChangedError) Error() string {
	return fmt.Sprintf("rule %q was %s and is now %s, which cannot read the rule's stored states; %s", e.rule, e.before, e.now, newName)
}

// recordFingerprints compares the rules with the fingerprints in the store, which earlier or
// other processes wrote, and stores those of new rules. If the store fails, it only logs that:
// decisions then detect unreadable states for each key.
func (s *Server) recordFingerprints(ctx context.Context, rules []config.Rule) error {
	if _, ok := s.store.Store.(*memory.Store); ok {
		return nil // a memory store has no older states
	}
	ctx, cancel := context.WithTimeout(ctx, fingerprintTimeout)
	defer cancel()
	err := s.checkAndRecord(ctx, rules)
	var changed *ruleChangedError
	if err == nil || errors.As(err, &changed) {
		return err
	}
	s.log.Warn("the algorithms of the stored rules could not be read", "error", err)
	return nil
}

// checkAndRecord checks all rules before it writes any fingerprint, so that refused rules leave
// nothing in the store.
func (s *Server) checkAndRecord(ctx context.Context, rules []config.Rule) error {
	var keys []string
	for _, r := range rules {
		keys = append(keys, driver.Key("", s.options.Namespace, "", "shape", r.Name)) // the key of no rule
	}
	found, err := s.store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	for i, r := range rules {
		if err := checkFingerprint(r, found[i]); err != nil {
			return err
		}
	}
	for i, r := range rules {
		if found[i].Version != 0 {
			continue
		}
		if err := s.recordFingerprint(ctx, keys[i], r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) recordFingerprint(ctx context.Context, key string, r config.Rule) error {
	record := storage.Record{Version: storage.NewVersion(), State: []byte(fingerprint(r.Policy))}
	now, swapped, err := s.store.CompareAndSwap(ctx, storage.Swap{Key: key, New: record})
	if err != nil || swapped {
		return err
	}
	return checkFingerprint(r, now[0]) // another process has written it first
}

func checkFingerprint(r config.Rule, found storage.Record) error {
	if fingerprintText := fingerprint(r.Policy); found.Version != 0 && string(found.State) != fingerprintText {
		return &ruleChangedError{r.Name, string(found.State), fingerprintText}
	}
	return nil
}
