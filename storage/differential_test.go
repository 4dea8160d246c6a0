package storage_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// everyEngine is the options with each optimisation on and off.
func everyEngine() (all []storage.EngineOptions) {
	for _, remember := range []int{0, 3, -1} {
		for _, combining := range []bool{true, false} {
			for _, sharing := range []bool{true, false} {
				all = append(all, storage.EngineOptions{
					Remember: remember, NoCombining: !combining, NoSharing: !sharing, Budget: time.Minute,
				})
			}
		}
	}
	return all
}

// tally is a decision that adds to the number that the length of a state is, takes
// from it, or looks, and notes what it answered.
type tally struct {
	add    int // 0 to look
	limit  int
	answer string
}

func (t *tally) decide(_ time.Time, found [][]byte, next []storage.Change) (lasting bool, err error) {
	t.answer = ""
	denied := false
	for i := range found {
		n := len(found[i]) + t.add
		denied = denied || n > t.limit
		switch {
		case t.add == 0:
		case n > 0:
			next[i] = storage.Change{Verb: storage.Put, State: make([]byte, n)}
		case found[i] != nil:
			next[i].Verb = storage.Delete
		}
		t.answer += fmt.Sprint(len(found[i]), " ")
	}
	if denied {
		clear(next)
	}
	t.answer += fmt.Sprint(denied)
	return denied && t.add > 0, nil
}

func randomTally(random *rand.Rand) (keys []string, t tally) {
	for _, k := range random.Perm(5)[:random.IntN(3)+1] {
		keys = append(keys, fmt.Sprint("key ", k))
	}
	return keys, tally{add: random.IntN(5) - 1, limit: 12}
}

// One client gets the same answers whatever is optimised, also when another
// process writes in between.
func TestOptimisationsChangeNoAnswer(t *testing.T) {
	var want []string
	for _, o := range everyEngine() {
		s, random, got := newGated(), rand.New(rand.NewPCG(1, 2)), []string(nil)
		close(s.gate)
		e := storage.NewEngine(s, o)
		for range 600 {
			if random.IntN(10) == 0 { // another process
				key := fmt.Sprint("key ", random.IntN(5))
				if delete(s.records, key); random.IntN(3) > 0 {
					s.put(key, string(make([]byte, random.IntN(12))))
				}
				e = storage.NewEngine(s, o) // what it remembers may be denied truly, but not alike
			}
			keys, d := randomTally(random)
			_, err := e.Do(background, keys, d.decide)
			require.NoError(t, err)
			got = append(got, fmt.Sprint(keys, d.add, ": ", d.answer))
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%+v", o)
		becomesIdle(t, e)
	}
}

// Of many clients nothing is lost, nothing is counted twice, and no limit is
// passed.
func TestOptimisationsLoseNothing(t *testing.T) {
	const clients, times, limit = 8, 30, 100
	for _, o := range everyEngine() {
		s := newGated()
		close(s.gate)
		engines := []*storage.Engine{storage.NewEngine(s, o), storage.NewEngine(s, o)} // as of two processes
		var mu sync.Mutex
		used := map[string]int{}
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				random := rand.New(rand.NewPCG(3, uint64(i)))
				for range times {
					keys, d := randomTally(random)
					d.add, d.limit = 1+random.IntN(3), limit
					_, err := engines[i%2].Do(background, keys, d.decide)
					mu.Lock()
					if err != nil {
						t.Errorf("%+v: %v", o, err)
					}
					for _, key := range keys {
						if d.answer[len(d.answer)-len("false"):] == "false" {
							used[key] += d.add
						}
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		for key, n := range used {
			require.Len(t, s.records[key].State, n, "%s under %+v", key, o)
			require.LessOrEqual(t, n, limit)
		}
		becomesIdle(t, engines...)
	}
}

// becomesIdle waits for the last flights, which end a moment after their callers
// have the answer.
func becomesIdle(t *testing.T, engines ...*storage.Engine) {
	for _, e := range engines {
		require.Eventually(t, e.Idle, time.Minute, time.Millisecond, "somebody was forgotten")
	}
}
