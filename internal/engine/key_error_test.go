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

// If the reply to a refund was lost, an error of its key alone does not let it be sent again.
func TestALostRefundIsNotRepeatedAfterAnErrorOfItsKey(t *testing.T) {
	for _, keyErr := range []error{storage.ErrContended, storage.ErrUnavailable, storage.NotApplied(errors.New("no right to write"))} {
		runs := 0
		failing := way{name: "on a server", open: func(f *fake) storage.Store {
			return server{fake: f, lie: func(b *driver.Batch) {
				switch runs++; runs {
				case 1:
					b.Err = fmt.Errorf("%w: connection lost", storage.ErrUnavailable)
				case 2:
					b.KeyErr = []error{keyErr}
				}
			}}
		}}
		each(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
			b.store.set("k", storage.Record{Version: storage.NewVersion(), State: []byte("xxxx")})
			c := b.decide(newCallOf(driver.Refund, counter(9), "k"))
			require.ErrorIs(b, c.err, storage.ErrOutcomeUnknown)
			require.NotErrorIs(b, c.err, storage.ErrNotApplied)
			require.Equal(b, "xxx", b.store.state("k"))
		})
	}
}

// If nobody knows what became of one key, the requests on other keys get their answers.
func TestAnUnknownOutcomeOfOneKeyIsThatOfItsRequestsAlone(t *testing.T) {
	failing := way{name: "on a server", open: func(f *fake) storage.Store {
		return server{fake: f, lie: func(b *driver.Batch) {
			for i, key := range b.Keys {
				if key != "bad" {
					continue
				}
				b.KeyErr = make([]error, len(b.Keys))
				b.KeyErr[i], b.Found[i] = fmt.Errorf("%w: unexpected EOF", storage.ErrUnavailable), storage.Record{}
				for j := range b.Requests {
					if b.Requests[j].Uses[0].Key == i {
						b.Requests[j].Applied = 0
					}
				}
			}
		}}
	}}
	each(t, []way{failing}, engine.Options{MaxRoundTrips: 1}, func(b *bench) {
		b.close()
		b.start(newCall(counter(9), "first"))
		before, bad, after := b.start(newCall(counter(9), "k")), b.start(newCall(counter(9), "bad")), b.start(newCall(counter(9), "k2"))
		b.open()
		b.group.Wait()
		b.allowed(before)
		require.ErrorIs(b, bad.err, storage.ErrOutcomeUnknown)
		b.allowed(after)
	})
}
