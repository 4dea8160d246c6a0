package redis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/storage"
)

// lostReplies are faults after which a client does not know whether the server has got the request.
var lostReplies = []faultproxy.Kind{faultproxy.DropRequest, faultproxy.DropReply, faultproxy.CutReply}

// holdTwo takes the 2 units of a limit by two reservations, through a proxy. set sets the clock to a time after that. left returns
// how many units are left.
func holdTwo(t *testing.T) (proxy *faultproxy.Proxy, a, b *sluice.Reservation[string], set func(after time.Duration), left func() int64) {
	start, now, key := time.Unix(1e9, 0), time.Unix(1e9, 0), fmt.Sprint(rand.Uint64())
	proxy = faultproxy.Redis(t, shared.Redis(t).Addr())
	proxy.Only(isWrite)
	l, err := sluice.Options[string]{Clock: func() time.Time { return now }, Timeout: longTimeout}.
		New(open(t, newClient(t, proxy.Addr()), t.Name()), sluice.PerKey("inflight 2 ttl=1h"))
	require.NoError(t, err)
	for _, r := range []**sluice.Reservation[string]{&a, &b} {
		*r, _, err = l.Reserve(t.Context(), key, 1)
		require.NoError(t, err)
		require.NotNil(t, *r)
	}
	return proxy, a, b, func(after time.Duration) { now = start.Add(after) }, func() int64 {
		d, err := l.Peek(t.Context(), key)
		require.NoError(t, err)
		return d.Remaining
	}
}

// The unit returns by the release or after its TTL, and never twice.
func TestReleaseWithALostReplyIsNotRepeated(t *testing.T) {
	for _, kind := range lostReplies {
		t.Run(kind.String(), func(t *testing.T) {
			proxy, a, b, set, left := holdTwo(t)
			released := map[bool]int64{true: 1, false: 0}[kind.Applied()]
			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			require.ErrorIs(t, a.Release(t.Context()), storage.ErrOutcomeUnknown)
			require.NoError(t, a.Release(t.Context()), "it does nothing")
			require.Equal(t, 1, proxy.Exchanges())
			require.Equal(t, released, left())

			set(30 * time.Minute)
			require.NoError(t, b.Renew(t.Context()), "its unit is still held")
			set(66 * time.Minute)
			require.EqualValues(t, 1, left(), "the unit of the release has returned")
			require.NoError(t, b.Release(t.Context()))
			require.EqualValues(t, 2, left())
		})
	}
}

// A renewal is repeated. If it was applied the first time, it renews the unit of b too, which was in the same slot. So b finds its
// unit lost, but nothing is free that is held.
func TestRenewalWithALostReplyFreesNothing(t *testing.T) {
	for _, kind := range lostReplies {
		t.Run(kind.String(), func(t *testing.T) {
			proxy, a, b, set, left := holdTwo(t)
			set(30 * time.Minute)
			proxy.Plan(faultproxy.Fault{At: 1, Kind: kind})
			require.NoError(t, a.Renew(t.Context()))
			require.Equal(t, 2, proxy.Exchanges())
			if err := b.Renew(t.Context()); kind.Applied() {
				require.ErrorIs(t, err, sluice.ErrHoldLost)
			} else {
				require.NoError(t, err)
			}
			set(66 * time.Minute)
			require.Zero(t, left(), "both units are renewed")
			require.NoError(t, a.Release(t.Context()))
			require.EqualValues(t, 1, left())
			set(96 * time.Minute)
			require.EqualValues(t, 2, left())
		})
	}
}
