package fleet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// Order is a request to a spender: make calls for each key until it is denied. The clock does not advance, so
// the number of allowed calls is known exactly.
type Order struct {
	Namespace, Spec string
	Now             time.Time
	Keys            []string
}

const (
	spenderVariable = "SLUICE_FLEET_SPENDER" // has the address of the store
	spenderCallers  = 8
	noLimit         = 1000 // more allowed calls than this mean that there is no limit
)

// Spender executes one order after the other, with several concurrent callers, in a process of its own, which calls its methods
// over its standard input and output. Its limiters have one rule.
type Spender struct {
	store    storage.Store
	limiters map[string]*sluice.Limiter[string] // by namespace
	now      atomic.Int64                       // the time of the last order
}

// runSpender is the main function of a spender process.
func runSpender(address string) error {
	store, release, err := openAddress(address)
	if err != nil {
		return err
	}
	defer release()
	server := rpc.NewServer()
	if err := server.Register(&Spender{store: store, limiters: map[string]*sluice.Limiter[string]{}}); err != nil {
		return err
	}
	server.ServeConn(pipes{os.Stdin, os.Stdout})
	return nil
}

// pipes is a connection to another process.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// Spend makes calls for each key of the order until it is denied. It sets counts to how many calls were allowed for each key.
func (s *Spender) Spend(o Order, counts *map[string]int64) (err error) {
	l := s.limiters[o.Namespace]
	if l == nil {
		clock := func() time.Time { return time.Unix(0, s.now.Load()) }
		l, err = sluice.Options[string]{Namespace: o.Namespace, Timeout: longTimeout, Clock: clock}.New(s.store, sluice.PerKey(o.Spec))
		if err != nil {
			return err
		}
		s.limiters[o.Namespace] = l
	}
	s.now.Store(o.Now.UnixNano())
	allowed := make([]atomic.Int64, len(o.Keys))
	err = concurrently(spenderCallers, func(caller int) error {
		for i := range o.Keys {
			k := (i + caller) % len(o.Keys)
			if err := spendKey(l, o.Keys[k], &allowed[k]); err != nil {
				return err
			}
		}
		return nil
	})
	*counts = map[string]int64{}
	for i, key := range o.Keys {
		(*counts)[key] = allowed[i].Load()
	}
	return err
}

func spendKey(l *sluice.Limiter[string], key string, allowed *atomic.Int64) error {
	for {
		switch d, err := l.Allow(context.Background(), key); {
		case err != nil:
			return err
		case !d.Allowed:
			return nil
		}
		if n := allowed.Add(1); n > noLimit {
			return fmt.Errorf("key %q: %d calls were allowed; there is no limit", key, n)
		}
	}
}

// startSpenders starts spenders.
func startSpenders(t *testing.T, address string, n int) []*rpc.Client {
	t.Helper()
	openStore(t, address) // SQLite may return an error if several processes create a file at the same time
	spenders := make([]*rpc.Client, n)
	for i := range spenders {
		p := startSelf(t, spenderVariable, address)
		spenders[i] = rpc.NewClient(pipes{p.stdout, p.stdin})
	}
	return spenders
}

// spendTogether gives each spender its order at the same time. It returns how many calls were
// allowed for each key in total.
func spendTogether(t *testing.T, spenders []*rpc.Client, orders []Order) map[string]int64 {
	t.Helper()
	var calls []*rpc.Call
	for i, s := range spenders {
		calls = append(calls, s.Go("Spender.Spend", orders[i], new(map[string]int64), nil))
	}
	sum := map[string]int64{}
	for _, call := range calls {
		require.NoError(t, (<-call.Done).Error)
		for key, n := range *call.Reply.(*map[string]int64) {
			sum[key] += n
		}
	}
	return sum
}

// noon is the beginning of an hour.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// At each time, four processes together admit exactly what the policy allows for a key. They share two keys, and each has one of
// its own.
func TestProcessesTogetherAdmitExactlyTheLimit(t *testing.T) {
	const minute, instant = time.Minute, time.Nanosecond
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spenders := startSpenders(t, address(t), 4)
			for _, c := range []struct {
				spec string
				at   []time.Duration
				want []int64
			}{
				{"gcra 10/h burst=7", []time.Duration{0, 6*minute - instant, 6 * minute, 18 * minute, 48 * time.Hour}, []int64{7, 0, 1, 2, 7}},
				{"tokenbucket 10/h burst=7", []time.Duration{0, 6*minute - instant, 6 * minute, 18 * minute, 48 * time.Hour}, []int64{7, 0, 1, 2, 7}},
				{"tokenbucket 4/h burst=7 refill=interval", []time.Duration{0, time.Hour - instant, time.Hour, 3 * time.Hour}, []int64{7, 0, 4, 7}},
				{"fixedwindow 5/h", []time.Duration{5 * minute, 65*minute - instant, 65 * minute, 125 * minute}, []int64{5, 0, 5, 5}},
				{"fixedwindow 5/h align=clock", []time.Duration{5 * minute, time.Hour - instant, time.Hour, 2 * time.Hour}, []int64{5, 0, 5, 5}},
				{"movingwindow 8/h slots=4 trailing=whole", []time.Duration{0, 75*minute - instant, 75 * minute}, []int64{8, 0, 8}},
				{"movingwindow 8/h slots=4", []time.Duration{0, time.Hour, 75*minute - instant, 75 * minute}, []int64{8, 0, 7, 1}},
				{"all(gcra 10/h burst=7; fixedwindow 9/h)", []time.Duration{0, 6 * minute, 12 * minute, 18 * minute}, []int64{7, 1, 1, 0}},
			} {
				namespace := fmt.Sprintf("%s %x", c.spec, rand.Uint64())
				for round, at := range c.at {
					orders := make([]Order, len(spenders))
					for i := range orders {
						orders[i] = Order{namespace, c.spec, noon.Add(at), []string{"k", fmt.Sprint("own ", i), "l"}}
					}
					for key, got := range spendTogether(t, spenders, orders) {
						require.Equal(t, c.want[round], got, "%s, key %q, at %v", c.spec, key, at)
					}
				}
			}
		})
	}
}

// The clocks of four processes differ. In any order of the calls, they admit at least what one process admits at one time, and at
// most the Bound of the time between the first and the last clock.
func TestProcessesWithSkewedClocksStayWithinTheBound(t *testing.T) {
	skews := []time.Duration{-time.Hour, 0, 5 * time.Second, time.Hour}
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spenders := startSpenders(t, address(t), len(skews))
			for _, spec := range []string{
				"gcra 1/h burst=3", "tokenbucket 1/h burst=3", "tokenbucket 2/h burst=3 refill=interval", "fixedwindow 5/h", "movingwindow 8/h slots=4 trailing=whole",
			} {
				var orders []Order
				namespace := fmt.Sprintf("%s %x", spec, rand.Uint64())
				for _, skew := range skews {
					orders = append(orders, Order{namespace, spec, noon.Add(skew), []string{"k"}})
				}
				policy := sluice.MustPolicy(spec)
				got := spendTogether(t, spenders, orders)["k"]
				require.GreaterOrEqual(t, got, policy.Bound(1), spec)
				require.LessOrEqual(t, got, policy.Bound(2*time.Hour+1), spec)
				require.Zero(t, spendTogether(t, spenders, orders)["k"], "%s, again", spec)
			}
		})
	}
}
