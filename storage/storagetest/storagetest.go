// Package storagetest tests whether a store keeps the promises of packages storage and driver. A test of a store:
//
//	func TestLaws(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T) storagetest.Harness {
//			db := open(t) // one database with two tables
//			return storagetest.Harness{
//				Store:   mystore.New(db, mystore.Options{Table: "one"}),
//				Other:   mystore.New(db, mystore.Options{Table: "two"}),
//				Advance: func(d time.Duration) { shift(t, db, d) },
//			}
//		})
//	}
package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// Harness is a store to test, and the means to test it.
type Harness struct {
	// Store is the store to test. It is empty.
	Store storage.Store

	// Other is an empty store in the same database, with another table or prefix, which should begin with that of Store.
	Other storage.Store

	// Advance makes the time d pass for all records, and not more, without Purge. It may advance the clock of the stores, or
	// change all expiries: with "UPDATE ... SET expires_at = expires_at - d, purge_at = purge_at - d", or with PEXPIRE for each
	// key, and DEL if less than d is left.
	Advance func(d time.Duration)

	// Spoil gives a key a value that is no record, such as a list in Redis, so that the store reports an error. nil skips the law
	// about such keys.
	Spoil func(key string)

	// DropWrites makes the database drop every write of a key without an error, like a trigger. nil skips the laws about that.
	DropWrites func(key string)

	// Now returns the time of the store's own clock, before the first Advance. nil means time.Now.
	Now func() time.Time

	// Slack is how much longer than its TTL a record may live.
	Slack time.Duration

	// Timeout is when a call counts as hanging. 0 means 30 seconds.
	Timeout time.Duration
}

// Law is a promise, as an English sentence and a check.
type Law struct {
	Name     string
	Sentence string

	check   func(*subject)
	applies func(storage.Store) bool // nil: the law applies to every store
}

func law(name, sentence string, check func(*subject)) Law {
	return Law{Name: name, Sentence: sentence, check: check}
}

// Applies reports whether store has the interface that the law needs.
func (l Law) Applies(store storage.Store) bool {
	return l.applies == nil || l.applies(store)
}

// Check tests the law on a new harness.
func (l Law) Check(h Harness) error {
	h.Timeout = cmp.Or(h.Timeout, 30*time.Second)
	if h.Now == nil {
		h.Now = time.Now
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.Timeout)
	defer cancel()
	if violation := catch(func() { l.check(&subject{Harness: h, ctx: ctx}) }); violation != "" {
		return fmt.Errorf("%s\n\t%s", l.Sentence, violation)
	}
	return nil
}

// Laws returns all laws.
func Laws() []Law {
	return slices.Concat(swapLaws, writeLaws, expiryLaws,
		lawsOf[storage.Purger](purgeLaws),
		lawsOf[storage.Lister](listLaws),
		lawsOf[driver.Transactor](transactLaws),
		lawsOf[driver.Server](append(serverLaws, randomBatches)))
}

// lawsOf returns laws that apply only to stores that implement the interface I.
func lawsOf[I any](laws []Law) []Law {
	laws = slices.Clone(laws)
	for i := range laws {
		laws[i].applies = func(store storage.Store) bool {
			_, ok := store.(I)
			return ok
		}
	}
	return laws
}

// Run tests a store with all laws that apply to it. It calls open for each of them.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	first := open(t)
	if first.Store == nil || first.Other == nil || first.Advance == nil {
		t.Fatal("storagetest: set Store, Other and Advance of the Harness; at least one of them is nil")
	}
	for _, law := range Laws() {
		if !law.Applies(first.Store) {
			continue
		}
		t.Run(law.Name, func(t *testing.T) {
			if err := law.Check(open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
