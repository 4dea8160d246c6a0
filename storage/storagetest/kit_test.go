package storagetest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestAnHonestStoreKeepsEveryLaw(t *testing.T) {
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
		require.True(t, slices.ContainsFunc(saboteurs, func(s saboteur) bool { return s.law == law.Name }), "no store breaks %q", law.Name)
	}
	for _, s := range saboteurs {
		require.True(t, names[s.law], "%q breaks no law: there is no %q", s.fault, s.law)
	}
}

func TestASaboteurBreaksItsLawAndNoOther(t *testing.T) {
	for _, s := range saboteurs {
		t.Run(s.fault, func(t *testing.T) {
			t.Parallel()
			for _, law := range storagetest.Laws() {
				h, r := newHarness()
				h.Patience = 5 * time.Second
				if law.Name == s.law {
					h.Patience = time.Second
				}
				h.Store = s.build(r, &h)
				if !law.Applies(h.Store) || s.mayBreak(law) {
					continue
				}
				err := law.Check(h)
				if law.Name != s.law {
					require.NoError(t, err, "it broke another law too")
					continue
				}
				require.Error(t, err, "nobody noticed")
				require.Contains(t, err.Error(), law.Sentence)
				t.Log(err)
			}
		})
	}
}

// mayBreak reports whether a saboteur may break a law that is not its own.
func (s saboteur) mayBreak(law storagetest.Law) bool {
	return law.IsOfServers() && law.Name != s.law && slices.ContainsFunc(ofServers, func(o saboteur) bool { return o.fault == s.fault })
}

func TestAHangingStoreDoesNotHangTheKit(t *testing.T) {
	h, r := newHarness()
	h.Patience = 10 * time.Millisecond
	r.mu.Lock() // and never unlocks
	for _, law := range storagetest.Laws() {
		if law.Name == "one creator wins" {
			require.ErrorContains(t, law.Check(h), "had not ended")
		}
	}
}

func ExampleLaws() {
	for _, law := range storagetest.Laws()[:3] {
		fmt.Println(law.Sentence)
	}
	// Output:
	// A key that is absent loads as the zero Record, without an error.
	// Load answers in the order of its keys, which may repeat and may be absent.
	// A load of no keys and a swap of no keys succeed.
}

func ExampleLaw_Check() {
	forgetful, _ := newHarness()
	forgetful.Advance = func(time.Duration) {} // time stands still: nothing expires

	for _, law := range storagetest.Laws() {
		if law.Name == "an expired key is absent" {
			fmt.Println(law.Check(forgetful) == nil)
		}
	}
	// Output:
	// false
}
