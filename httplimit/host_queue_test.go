package httplimit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

// A denied request is ready, but a new one goes first. Then the Limiter denies a third request, which
// extends the wait of the first. The first must notice, or it would wait forever.
func TestExtendedWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &hostQueue{groups: new(denialGroups)}
		first, denied, fresh := q.add(1), q.add(2), q.add(3)
		d := compose.Decision{Rule: "own", RetryAfter: time.Second, Results: []compose.RuleResult{{Rule: "own"}}}
		d.Results[0].Cost = 1
		for _, p := range []*pendingRequest{first, denied} {
			p.hasSlot = true
			q.slots++
			require.NoError(t, p.postpone(t.Context(), &d))
		}
		time.Sleep(2 * time.Second)
		q.waiting.preferFresh = true
		q.waiting.insert(fresh)

		began, end := time.Now(), make(chan error, 1)
		go func() { end <- first.waitForSlot(t.Context()) }()
		synctest.Wait() // it is ready, but fresh is next
		denied.hasSlot = true
		q.slots++
		denied.group.turns++
		require.NoError(t, denied.postpone(t.Context(), &d))
		q.mu.Lock()
		q.waiting.preferFresh = false
		q.waiting.remove(fresh) // as if it had got a slot
		q.mu.Unlock()
		require.NoError(t, <-end)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, first.group.turns)
	})
}

// A rule can have a different key for each request. Then each denied request has its own group. The time
// must not depend on the number of groups.
func BenchmarkNext(b *testing.B) {
	for _, groups := range []int64{10, 10_000} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			q := &hostQueue{groups: new(denialGroups)}
			for i := range groups {
				p := q.add(i)
				p.group = q.groups.deny(denial{cost: i}, time.Now())
				q.waiting.insert(p)
			}
			for b.Loop() {
				q.waiting.next(nil)
			}
		})
	}
}
