// Package storagetest tests whether a store obeys the contract of package storage. The contract is
// a list of laws. A test of a store:
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
//
// Each [Law] is an English sentence and a check. The tests of this package contain for each law a
// store that breaks it. They require that the check of the law fails.
// The checks never sleep: the harness advances the time.
//
// The optional interfaces of package driver have laws of their own.
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
	// Store is the empty store to test. Laws of an optional interface that it does not implement are
	// skipped.
	Store storage.Store

	// Other is another empty store in the same database, with another table or prefix. A good prefix
	// for this test begins with the prefix of Store.
	Other storage.Store

	// Advance makes the time d pass for all records in the database. It may advance a clock that the
	// stores use. Or it may change all expiries in the database: for example with "UPDATE ... SET
	// expires_at = expires_at - d, purge_at = purge_at - d", or with PEXPIRE for each key and DEL for a
	// key that has less than d left. It must not advance by more than d, and it must not call Purge.
	// Real time may pass in addition.
	Advance func(d time.Duration)

	// Spoil gives a key a value that the database cannot read as a record, such as a list in Redis.
	// The database must then report an error for this key. Spoil changes nothing else. If Spoil is
	// nil, the law of [driver.Server] about such keys is skipped.
	Spoil func(key string)

	// DropWrites makes the database drop every write of a key without an error, as a trigger can do. It
	// changes nothing else. If DropWrites is nil, the laws about such writes are skipped.
	DropWrites func(key string)

	// Now returns the time of the store's own clock. It is only called before the first call of Advance.
	// nil means time.Now.
	Now func() time.Time

	// Slack is the time by which a record may outlive its TTL, because the store rounds TTLs up or adds a
	// margin.
	Slack time.Duration

	// Timeout is the time after which a call counts as hanging. 0 means 30 seconds.
	Timeout time.Duration
}

// Law is a promise of every store to which it applies; see [Law.Applies].
type Law struct {
	Name     string
	Sentence string

	check   func(*subject)
	applies func(storage.Store) bool // nil: the law applies to every store
}

func law(name, sentence string, check func(*subject)) Law {
	return Law{Name: name, Sentence: sentence, check: check}
}

// Applies reports whether the law applies to store. A law of an optional interface applies only to
// stores that implement it.
func (l Law) Applies(store storage.Store) bool {
	return l.applies == nil || l.applies(store)
}

// Check tests the law. h must be a new harness. The error contains the law's Sentence and the
// violation.
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

// Laws returns all laws. The laws of the optional interfaces come last.
func Laws() []Law {
	return slices.Concat(swapLaws, bytesLaws, expiryLaws,
		lawsOf[storage.Purger](purgeLaws),
		lawsOf[driver.Transactor](transactLaws),
		lawsOf[driver.Server](serverLaws, batchTimeLaws, []Law{randomBatches}))
}

// lawsOf returns laws that apply only to stores that implement the interface I.
func lawsOf[I any](lists ...[]Law) []Law {
	laws := slices.Concat(lists...)
	for i := range laws {
		laws[i].applies = func(store storage.Store) bool {
			_, ok := store.(I)
			return ok
		}
	}
	return laws
}

// Run tests a store with all laws that apply to it. It calls open for each law. open may use t.Cleanup.
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
