package sluice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Clear resets all keys of a rule, also those that a policy of another kind has stored under its name. It returns how many records
// it deleted, also with an error. Then some keys may be reset and others not, and you can call it again. It returns an error if no
// rule has the name.
//
// Clear lists the keys page by page and resets each by itself, so other calls go on. A key that is charged for the first time
// meanwhile may keep its charge. Other processes can deny from their caches for up to Options.DenialCacheTTL.
//
// On Redis, the user of the client needs the permission +scan, and Clear looks at all names of the database. If the store is no
// [storage.Lister], the error wraps [errors.ErrUnsupported].
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

// clearPage is the number of keys of a page, and clearers that of the goroutines that reset them.
const (
	clearPage = 256
	clearers  = 16
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
	if l.purses != nil {
		defer l.purses.drop(nil, true)
	}
	begins := []string{prefix}
	if l.options.Group != nil {
		begins = append(begins, "{") // the groups are not known
	}
	for _, begin := range begins {
		for cursor, more := "", true; more; more = cursor != "" {
			var keys []string
			if keys, cursor, err = l.list(ctx, lister, begin, cursor); err != nil {
				return deleted, err
			}
			keys = slices.DeleteFunc(keys, func(key string) bool { return !driver.IsOf(key, prefix) })
			n, err := l.resetTexts(ctx, rule.Name, keys)
			if deleted += n; err != nil {
				return deleted, err
			}
		}
	}
	return deleted, nil
}

func (l *Limiter[T]) list(ctx context.Context, lister storage.Lister, prefix, cursor string) (keys []string, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.engine.Timeout())
	defer cancel()
	return lister.List(ctx, prefix, cursor, clearPage)
}

// resetTexts resets the keys with these texts, some at once, and returns how many had a record. After an error it begins no
// other one.
func (l *Limiter[T]) resetTexts(ctx context.Context, rule string, texts []string) (deleted int, err error) {
	var next, count atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range min(clearers, len(texts)) {
		group.Go(func() {
			for failed.Load() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(texts)) {
					return
				}
				r := &engine.Request{
					Items: []driver.Item{{Key: driver.RuleKey{Rule: texts[i]}}}, Uses: []engine.Use{{Op: driver.Reset}},
					Evaluator: &evaluation{op: driver.Reset, results: []RuleResult{{Rule: rule}}},
				}
				if _, err := l.engine.Decide(ctx, r); err != nil {
					failed.CompareAndSwap(nil, &err)
				} else if r.Items[0].Next.Verb == driver.Delete {
					count.Add(1)
				}
			}
		})
	}
	group.Wait()
	if e := failed.Load(); e != nil {
		err = *e
	}
	return int(count.Load()), err
}
