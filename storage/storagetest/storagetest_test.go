// These tests promise that the laws can be trusted: a correct store keeps all of them, and for each law
// there is a faulty store (a saboteur) that breaks this law and no other.
package storagetest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestCorrectStoreKeepsEveryLaw(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		h, _ := newHarness()
		for _, law := range storagetest.Laws() {
			require.True(t, law.Applies(h.Store), law.Name)
		}
		return h
	})
}

func TestEveryLawHasASaboteur(t *testing.T) {
	names := map[string]bool{}
	for _, law := range storagetest.Laws() {
		require.False(t, names[law.Name], "two laws are named %q", law.Name)
		names[law.Name] = true
		require.True(t, slices.ContainsFunc(saboteurs, func(s saboteur) bool { return s.law == law.Name }), "no saboteur breaks %q", law.Name)
	}
	for _, s := range saboteurs {
		require.True(t, names[s.law], "the saboteur that %s has the unknown law %q", s.fault, s.law)
	}
}

func TestSaboteurBreaksItsLawAndNoOther(t *testing.T) {
	for _, s := range saboteurs {
		t.Run(s.fault, func(t *testing.T) {
			t.Parallel()
			for _, law := range storagetest.Laws() {
				h, r := newHarness()
				if law.Name == s.law { // some saboteurs hang
					h.Timeout = time.Second
				}
				h.Store = s.build(r, &h)
				if !law.Applies(h.Store) || s.mayBreak(law) {
					continue
				}
				err := law.Check(h)
				if law.Name != s.law {
					require.NoError(t, err, "it also breaks %q", law.Name)
					continue
				}
				require.Error(t, err, "the law did not detect the fault")
				require.Contains(t, err.Error(), law.Sentence)
				t.Log(err)
			}
		})
	}
}

// mayBreak reports whether a saboteur may also break law. The law of random batches covers most faults of
// servers, the other saboteurs run batches correctly, and a store that expires nothing breaks all laws of expiry. The law
// about the TTLs of loaded records also detects records that expire too late or that have the wrong place.
func (s saboteur) mayBreak(law storagetest.Law) bool {
	isOfServers := law.Applies(struct{ driver.Server }{}) && !law.Applies(struct{ storage.Store }{})
	return law.Name != s.law && (isOfServers || s.fault == expiresNothing || law.Name == "Load returns what is left of the TTL")
}

func TestHangingStoreFailsTheLaw(t *testing.T) {
	h, r := newHarness()
	h.Timeout = 10 * time.Millisecond
	r.mu.Lock() // never unlocked
	for _, law := range storagetest.Laws() {
		if law.Name == "no increment is lost" {
			require.ErrorContains(t, law.Check(h), "have not ended")
		}
	}
}

func ExampleLaws() {
	for _, law := range storagetest.Laws()[:3] {
		fmt.Println(law.Sentence)
	}
	// Output:
	// Load returns records in the order of its keys, which may repeat. The record of an absent key is the zero Record.
	// A Load of no keys and a CompareAndSwap without swaps succeed.
	// Stores with different tables or prefixes in one database share no key.
}

func ExampleLaw_Check() {
	h, _ := newHarness()
	h.Advance = func(time.Duration) {} // the time does not advance, so no record expires

	for _, law := range storagetest.Laws() {
		if law.Name == "an expired key is absent" {
			fmt.Println(law.Check(h) == nil)
		}
	}
	// Output:
	// false
}
