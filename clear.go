package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/retrywait"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Clear resets all keys of a rule, also those of earlier policies under its name. It returns the number of deleted records,
// even with an error. If a key cannot be reset, Clear goes on with the others, unless the store is unavailable. An unknown name
// is an error.
//
// Each record is deleted in its own write, so Clear may miss a key that is created meanwhile. It may not end if keys are
// created faster than it deletes them, so give ctx a deadline. For other limiters see [Limiter.Reset]. On Redis, Clear scans
// the whole database twice. If the store does not implement [storage.Lister], the error wraps [errors.ErrUnsupported].
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
	clearGroup = 16                    // keys that are reset at a time
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
	defer l.engine.DropDenials() // another process may have deleted records whose denials are still cached
	if l.purses != nil {
		defer l.purses.dropRule(rule.Name)
	}
	defer func() {
		if l.options.Local != nil && (err == nil || deleted > 0) {
			l.options.Local.Clear(prefix)
		}
	}()
	var first error // of a key
	for cursor, more := "", true; more; more = cursor != "" {
		page, cancel := context.WithTimeout(ctx, cmp.Or(l.options.Timeout, engine.DefaultTimeout))
		var keys []string
		keys, cursor, err = driver.ListRule(page, lister, prefix, cursor, clearPage)
		cancel()
		if err != nil {
			return deleted, clearFailure(deleted, cmp.Or(first, err))
		}
		n, err := l.resetKeys(ctx, keys)
		deleted += n
		if endsClear(ctx, err) {
			return deleted, clearFailure(deleted, err)
		}
		first = cmp.Or(first, err)
	}
	return deleted, clearFailure(deleted, first)
}

// endsClear reports whether the other keys would fail too after the outcome of one key.
func endsClear(ctx context.Context, err error) bool {
	return err != nil && (hasEnded(ctx) || errors.Is(err, storage.ErrUnavailable))
}

// resetKeys resets stored keys, up to clearGroup at a time. It returns how many of them had a record, and an error. After an
// error that ends Clear it begins no others.
func (l *Limiter[T]) resetKeys(ctx context.Context, keys []string) (deleted int, first error) {
	for some := range slices.Chunk(keys, clearGroup) {
		var existed [clearGroup]bool
		var errs [clearGroup]error
		var panics [clearGroup]any // they must reach the caller
		var group sync.WaitGroup
		for i, key := range some {
			group.Go(func() {
				defer func() { panics[i] = recover() }()
				existed[i], errs[i] = l.resetKey(ctx, key)
			})
		}
		group.Wait()
		for i := range some {
			if panics[i] != nil {
				panic(panics[i])
			}
			if existed[i] {
				deleted++
			}
			first = cmp.Or(first, errs[i])
		}
		if i := slices.IndexFunc(errs[:], func(err error) bool { return endsClear(ctx, err) }); i >= 0 {
			return deleted, errs[i]
		}
	}
	return deleted, first
}

// resetKey resets a stored key, and reports whether it had a record. It tries again while the queue is full. Its error is a
// KeyError that wraps no ErrNotApplied, because other keys of the Clear may have been reset.
func (l *Limiter[T]) resetKey(ctx context.Context, key string) (existed bool, err error) {
	for {
		existed, err := l.engine.Reset(ctx, key)
		switch {
		case err == nil:
			return existed, nil
		case !errors.Is(err, storage.ErrOverloaded):
			return false, &storage.KeyError{Key: key, Err: &clearError{err}}
		}
		retrywait.Pause(ctx, clearPause)
	}
}

// clearFailure returns the error of Clear.
func clearFailure(deleted int, err error) error {
	if err == nil || deleted == 0 {
		return err
	}
	return fmt.Errorf("sluice: Clear deleted %d records, but: %w", deleted, &clearError{err})
}

// clearError is an error without storage.ErrNotApplied.
type clearError struct{ err error }

// Error implements error.
func (e *clearError) Error() string {
	return strings.TrimPrefix(e.err.Error(), storage.ErrNotApplied.Error()+": ")
}

// Is is for errors.Is.
func (e *clearError) Is(target error) bool {
	return target != storage.ErrNotApplied && errors.Is(e.err, target)
}

// As is for errors.As.
func (e *clearError) As(target any) bool { return errors.As(e.err, target) }
