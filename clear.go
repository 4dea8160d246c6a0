package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Clear resets all keys of a rule. It also deletes the records that a policy of another kind has stored under the rule's name. It
// returns the number of deleted records, also with an error. After an error, some keys are reset and others are not; call Clear
// again to reset the rest. It returns an error if no rule has the name.
//
// Clear lists the keys in pages and resets each key in its own write, so other calls go on. It may miss a key that is created while
// it runs. If other calls create keys faster than Clear deletes them, it may not end, so give ctx a deadline. Other processes can
// deny from their caches for up to Options.DenialCacheTTL, and can use the calls that they have bought with Options.Prepay.
//
// On Redis, the user of the client needs the permission +scan, and Clear reads all names of the database, twice. If the store does
// not implement [storage.Lister], the error wraps [errors.ErrUnsupported].
func (l *Limiter[T]) Clear(ctx context.Context, rule string) (deleted int, err error) {
	r := l.ruleOf(rule)
	if r == nil {
		return 0, noRule("Clear", rule, l.Rules())
	}
	_, err = l.observed(ctx, driver.Reset, func() (Decision, error) {
		deleted, err = l.clear(ctx, r)
		return Decision{Allowed: err == nil}, err
	})
	return deleted, err
}

// noRule is the error of a method that was called with the name of no rule.
func noRule(method, name string, names []string) error {
	return fmt.Errorf("sluice: %s: no rule has the name %q; the rules are %q", method, name, names)
}

const (
	clearPage  = 256                   // keys of a page
	clearers   = 16                    // goroutines that reset them
	clearPause = 10 * time.Millisecond // after an ErrOverloaded
)

func (l *Limiter[T]) clear(ctx context.Context, rule *Rule[T]) (deleted int, err error) {
	prefix := strings.TrimSuffix(driver.Rule(rule.texts.namespace, rule.Name, ""), ":") // without the kind
	if err := ctx.Err(); err != nil {
		return 0, storage.NotApplied(err)
	}
	if l.memory != nil {
		return l.memory.Clear(prefix), nil
	}
	lister, ok := l.store.(storage.Lister)
	if !ok {
		return 0, fmt.Errorf("sluice: Clear: the store %T cannot list its keys: %w", l.store, errors.ErrUnsupported)
	}
	defer l.engine.DropDenials() // other processes may have reset keys that are not listed any more
	if l.purses != nil {
		defer l.purses.dropRule(rule.Name)
	}
	var contended error
	for cursor, more := "", true; more; more = cursor != "" {
		page, cancel := context.WithTimeout(ctx, cmp.Or(l.options.Timeout, engine.DefaultTimeout))
		var keys []string
		keys, cursor, err = driver.ListRule(page, lister, prefix, cursor, clearPage)
		cancel()
		if err != nil {
			return deleted, clearFailure(deleted, err)
		}
		n, err := l.resetTexts(ctx, keys)
		deleted += n
		switch {
		case errors.Is(err, storage.ErrContended):
			contended = err
		case err != nil:
			return deleted, clearFailure(deleted, err)
		}
	}
	return deleted, clearFailure(deleted, contended)
}

// resetTexts resets the records with these keys, up to clearers at a time. It returns how many of them existed, and an error. After
// an ErrContended it goes on with the other keys, and returns another error in preference.
func (l *Limiter[T]) resetTexts(ctx context.Context, texts []string) (deleted int, err error) {
	var mu sync.Mutex
	take := func() (text string, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(texts) == 0 || err != nil && !errors.Is(err, storage.ErrContended) {
			return "", false
		}
		text, texts = texts[0], texts[1:]
		return text, true
	}
	var group sync.WaitGroup
	for range min(clearers, len(texts)) {
		group.Go(func() {
			for text, ok := take(); ok; text, ok = take() {
				existed, failed := l.resetText(ctx, text)
				mu.Lock()
				if failed != nil && (err == nil || errors.Is(err, storage.ErrContended)) {
					err = failed
				}
				if existed {
					deleted++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return deleted, err
}

// resetText resets the record with a key, and reports whether it existed. It tries again while the queue is full.
func (l *Limiter[T]) resetText(ctx context.Context, text string) (existed bool, err error) {
	for {
		r := &engine.Request{
			Items:     []driver.Item{{Key: driver.RuleKey{Rule: text}}}, // which has this text
			Uses:      []engine.Use{{Op: driver.Reset}},
			Evaluator: &evaluation{op: driver.Reset, results: make([]RuleResult, 1)},
		}
		_, err := l.engine.Decide(ctx, r)
		if !errors.Is(err, storage.ErrOverloaded) {
			return err == nil && r.Items[0].Next.Verb == driver.Delete, err
		}
		retrywait.Pause(ctx, clearPause)
	}
}

// clearFailure returns the error of Clear. If records were deleted, it does not wrap storage.ErrNotApplied.
func clearFailure(deleted int, err error) error {
	if err == nil || deleted == 0 {
		return err
	}
	return &clearError{deleted, err}
}

type clearError struct {
	deleted int
	err     error
}

func (e *clearError) Error() string {
	return fmt.Sprintf("sluice: Clear has deleted %d records before this error: %v", e.deleted, e.err)
}

func (e *clearError) Is(target error) bool {
	return target != storage.ErrNotApplied && errors.Is(e.err, target)
}

func (e *clearError) As(target any) bool { return errors.As(e.err, target) }
