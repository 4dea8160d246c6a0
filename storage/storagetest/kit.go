// Package storagetest holds the laws that every store of sluice obeys, and judges
// a store by them:
//
//	func TestLaws(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T) storagetest.Harness {
//			db := open(t) // one database, two tables
//			return storagetest.Harness{
//				Store:   mystore.New(db, mystore.Options{Table: "one"}),
//				Other:   mystore.New(db, mystore.Options{Table: "two"}),
//				Advance: func(d time.Duration) { shift(t, db, d) },
//			}
//		})
//	}
//
// Each [Law] is one English sentence and a check that can fail: the kit's own tests
// hold, for every law, a store that breaks it and no other. The checks never
// sleep. Where TTLs are looked at, the harness makes time pass.
//
// Laws of updates in place ([driver.InPlace]) are laws of updates in transactions
// ([driver.Transactor]) too. What else the optional abilities promise has laws of its own.
package storagetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// Harness is a subject for one law.
type Harness struct {
	// Store is the store to be judged, empty. Which of the optional abilities it has is
	// found by assertion; the laws of those that it has not are left out.
	Store storage.Store

	// Other is a second store in the same database, empty, which must not meet
	// the first: another table, another prefix. A prefix is best tested by one that
	// continues the first.
	Other storage.Store

	// Advance makes d pass for what is in the database, both stores included. It may move a clock
	// that the store was given; or bring every time in the database nearer by d, as
	// "UPDATE ... SET expires_at = expires_at - d, purge_at = purge_at - d" does, and PEXPIRE for
	// each key (DEL, where less than d was left). It must not take more than d off, nor purge. Real
	// time may pass beside it: the laws allow for that.
	Advance func(d time.Duration)

	// Spoil makes what is stored under a key such that the database cannot read it, and nothing
	// else; nil: there is no such thing. The law of [driver.Server] about it is then left out.
	Spoil func(key string)

	// Now is the time by the store's own clock, before Advance is called for the first time;
	// nil: time.Now. Laws of [storage.Swap.Until] go by it.
	Now func() time.Time

	// Slack is by how much a record may outlive its TTL: the store's grain and its
	// margin for clocks that disagree, together.
	Slack time.Duration

	// Patience is after how long a call counts as hanging. 0: 30 seconds.
	Patience time.Duration
}

// Law is one thing that every store obeys.
type Law struct {
	Name     string
	Sentence string

	applies func(storage.Store) bool // nil: to every store
	check   func(*subject)
}

// Applies reports whether the law says anything about store: laws of an optional
// ability apply to the stores that have it.
func (l Law) Applies(store storage.Store) bool {
	return l.applies == nil || l.applies(store)
}

// Check holds a fresh subject against the law. The error begins with the law's
// sentence and says what was seen instead.
func (l Law) Check(h Harness) error {
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	s := newSubject(h)
	defer s.cancel()
	if seen := s.catch(func() { l.check(s) }); seen != "" {
		return fmt.Errorf("%s\n\t%s", l.Sentence, seen)
	}
	return nil
}

// Laws are all the laws, those of the optional abilities last.
func Laws() []Law {
	plain := slices.Concat(readingLaws, swappingLaws, opaqueLaws, refusingLaws, lapsingLaws, togetherLaws, apartLaws)
	return slices.Concat(plain, abilityLaws, inPlaceLaws, inTransactions(inPlaceLaws), transactLaws, lawsOfServers())
}

// Run judges stores by every law that applies, each with a fresh harness. open may
// register what it started for cleaning up with t.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	first := open(t)
	if first.Store == nil || first.Other == nil || first.Advance == nil {
		t.Fatal("storagetest: a Harness needs Store, Other and Advance")
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
