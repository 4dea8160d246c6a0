// These tests promise that the laws can be trusted: a correct store keeps all of them, and for each law
// there is a faulty store (a saboteur) that breaks it.
package storagetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage/memory"
)

// newHarness returns a harness whose store is the result.
func newHarness() (Harness, *faulty) {
	var passed atomic.Int64
	now := func() time.Time { return time.Unix(1e9, passed.Load()) }
	s := newFaulty(now)
	advance := func(d time.Duration) { passed.Add(int64(d)) }
	dropWrites := func(key string) { s.dropped[key] = true }
	return Harness{Store: s, Other: &memory.Store{Clock: now}, Advance: advance, DropWrites: dropWrites, Now: now}, s
}

func TestEveryLawFindsItsSaboteurs(t *testing.T) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) {
			t.Parallel()
			correct, _ := newHarness()
			require.NoError(t, law.Check(correct))
			require.NotEmpty(t, saboteurs[law.Name])
			for fault, build := range saboteurs[law.Name] {
				h, s := newHarness()
				h.Timeout = time.Second // some saboteurs hang
				build(s, &h)
				require.ErrorContains(t, law.Check(h), law.Sentence, "a store that %s", fault)
			}
		})
	}
	require.Len(t, saboteurs, len(Laws()), "saboteurs of unknown laws")
}

func ExampleLaws() {
	for _, law := range Laws()[:2] {
		fmt.Println(law.Sentence)
	}
	// Output:
	// Load returns records in the order of its keys, which may repeat or be none. The record of an absent key is the zero Record.
	// Stores with different tables or prefixes in one database share no key.
}
