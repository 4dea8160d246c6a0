package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// The reply to a refund was lost. The second attempt only reads the key, and reports an error of it.
func TestRefundWithALostReplyIsNotRepeatedAfterAnErrorOfItsKey(t *testing.T) {
	for _, keyErr := range []error{storage.ErrContended, storage.ErrUnavailable, storage.NotApplied(errors.New("no right to write"))} {
		runs := 0
		failing := way{name: "on a server", open: func(f *fakeStore) storage.Store {
			return server{fakeStore: f, lie: func(b *driver.Batch) {
				switch runs++; runs {
				case 1:
					b.Err = fmt.Errorf("%w: connection lost", storage.ErrUnavailable)
				case 2:
					b.KeyErr = []error{keyErr}
				}
			}}
		}}
		forEachWay(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			b.store.set("k", storage.Record{Version: storage.NewVersion(), State: []byte("xxxx")})
			c := b.decide(newCallOf(driver.Refund, counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
			require.Equal(b, "xxx", b.store.state("k"))
		})
	}
}

// The outcome of one key is unknown, or the server could not read it. Other requests are decided.
func TestErrorOfAKeyAffectsOnlyItsRequests(t *testing.T) {
	lost, unreadable := fmt.Errorf("%w: unexpected EOF", storage.ErrUnavailable), storage.NotApplied(errors.New("WRONGTYPE"))
	for keyErr, want := range map[error]error{lost: storage.ErrOutcomeUnknown, unreadable: unreadable} {
		failing := way{name: "on a server", open: func(f *fakeStore) storage.Store {
			return server{fakeStore: f, lie: func(b *driver.Batch) {
				for i, key := range b.Keys {
					if key != "bad" {
						continue
					}
					b.KeyErr = make([]error, len(b.Keys))
					b.KeyErr[i], b.Found[i] = keyErr, storage.Record{}
					for j := range b.Requests {
						if b.Requests[j].Uses[0].Key == i {
							b.Requests[j].Applied = 0
						}
					}
				}
			}}
		}}
		forEachWay(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *fixture) {
			b.hold()
			b.start(newCall(counter(9), "first"))
			before, bad, after := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "bad")), b.start(newCall(counter(9), "k2"))
			b.releaseAll()
			b.group.Wait()
			b.allowed(before)
			require.ErrorIs(b, bad.err, want)
			require.False(b, bad.allowed)
			b.allowed(after)
		})
	}
}
