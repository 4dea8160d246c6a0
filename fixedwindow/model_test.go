package fixedwindow_test

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/fixedwindow"
)

// A model is the window as one would explain it: when it ends, and what has been
// paid in it. It has numbers of any size and knows no shortcuts.
type model struct {
	o      fixedwindow.Options
	opened *big.Int // the first payment
	end    *big.Int
	paid   *big.Int
}

func integer(n int64) *big.Int { return big.NewInt(n) }

func newModel(o fixedwindow.Options) model {
	return model{o, integer(0), integer(0), integer(0)}
}

// endOf is where a window ends that is opened at t.
func (m model) endOf(t *big.Int) *big.Int {
	period := integer(int64(m.o.Limit.Period))
	if m.o.Align == fixedwindow.AlignFirst {
		return period.Add(period, t)
	}
	offset := integer(int64(m.o.Offset))
	number := new(big.Int).Sub(t, offset)
	number.Div(number, period).Add(number, integer(1))
	return number.Mul(number, period).Add(number, offset)
}

type verb int

const (
	step verb = iota
	peek
	refund
	charge
)

// do is what happens at the instant at. Where nothing is paid, nothing changes.
func (m model) do(v verb, at, cost int64) (next model, r algo.Result) {
	now := integer(at)
	limit := integer(m.o.Limit.Count)
	r.Limit, r.Cost = m.o.Limit.Count, cost
	next = m
	if r.Fresh = m.paid.Sign() == 0 || now.Cmp(m.end) >= 0; r.Fresh {
		next.opened, next.end, next.paid = now, m.endOf(now), integer(0)
		r.Refilled = r.Limit
	} else {
		r.Available = new(big.Int).Sub(limit, m.paid).Int64()
		r.Skew = wait(m.opened, at)
	}
	r.Skew = max(r.Skew, 0)

	there := new(big.Int).Sub(limit, next.paid)
	fits := there.Cmp(integer(cost)) >= 0
	r.Allowed = v == refund || v == charge || fits
	switch {
	case v == refund:
		r.Paid = -min(cost, next.paid.Int64())
	case v == charge || v == step && fits:
		r.Paid = cost
	}
	next.paid = new(big.Int).Add(next.paid, integer(r.Paid))
	r.Remaining = new(big.Int).Sub(limit, next.paid).Int64()
	switch {
	case r.Allowed:
	case cost > r.Limit:
		r.RetryAfter = algo.Never
	default:
		r.RetryAfter = wait(next.end, at)
	}
	if next.paid.Sign() > 0 {
		r.NextRefill, r.ResetAfter = wait(next.end, at), wait(next.end, at)
	}
	if r.Paid == 0 {
		next = m
	}
	return next, r
}

// wait is how long from an instant until another, or until the last of int64.
func wait(until *big.Int, from int64) time.Duration {
	if !until.IsInt64() {
		until = integer(math.MaxInt64)
	}
	return time.Duration(until.Int64() - from)
}

// run plays random events and compares each answer with that of the model.
func run(t *testing.T, random *rand.Rand, o fixedwindow.Options, answer func(v verb, at, cost int64) algo.Result) {
	m := newModel(o)
	now := upTo(random, algo.MaxInstant)
	for range 12 {
		_, look := m.do(peek, now, 1)
		left := look.Remaining
		costs := []int64{1, left, left + 1, left / 2, upTo(random, look.Limit), look.Limit, look.Limit + 1}
		cost := max(1, costs[random.IntN(len(costs))])
		v := verb(random.IntN(6) % 4) // more steps and peeks than others
		if v == charge && (cost > algo.MaxCount || look.Limit-left > algo.MaxCount-cost) {
			v = step
		}
		next, want := m.do(v, now, cost)
		require.Equal(t, want, answer(v, now, cost), "%v on %+v: verb %d at %d, cost %d", o, m, v, now, cost)
		m = next

		by := []int64{0, 1, int64(want.ResetAfter), int64(want.ResetAfter) - 1, upTo(random, int64(o.Limit.Period)), -upTo(random, now)}[random.IntN(6)]
		if by > algo.MaxInstant-now {
			by = 0
		}
		now = max(0, now+by)
	}
}

// upTo is a number from 1 to n, of any size alike.
func upTo(random *rand.Rand, n int64) int64 {
	if n <= 1 {
		return 1
	}
	size := random.IntN(bits.Len64(uint64(n))) + 1
	return min(n, 1<<(size-1)+random.Int64N(1<<(size-1)))
}

// anyOptions are small ones, handy ones, or any that are valid.
func anyOptions(random *rand.Rand) fixedwindow.Options {
	o := fixedwindow.Options{Align: fixedwindow.Align(random.IntN(2))}
	switch random.IntN(3) {
	case 0:
		o.Limit = algo.Per(random.Int64N(6)+1, time.Duration(random.Int64N(12)+1))
	case 1:
		o.Limit = algo.Per(random.Int64N(1000)+1, []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[random.IntN(4)])
	default:
		o.Limit = algo.Per(upTo(random, algo.MaxCount), time.Duration(upTo(random, math.MaxInt64)))
	}
	if o.Align == fixedwindow.AlignClock {
		switch random.IntN(4) {
		case 0:
			o.Offset = time.Duration(random.Int64N(25) - 12)
		case 1:
			o.Offset = time.Duration(upTo(random, math.MaxInt64))
		case 2:
			o.Offset = -time.Duration(upTo(random, math.MaxInt64)) - time.Duration(random.Int64N(2))
		}
	}
	return o
}

func TestEveryAnswerIsThatOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range rounds(5000) {
		o := anyOptions(random)
		policy, err := fixedwindow.New(o)
		require.NoError(t, err)
		var s fixedwindow.State
		var b []byte
		run(t, random, o, func(v verb, at, cost int64) (r algo.Result) {
			s, r = call(s, v, at, o, cost)
			next, same := callPolicy(t, policy, v, b, at, cost)
			require.Equal(t, r, same)
			require.Equal(t, fixedwindow.AppendState([]byte{}, s), next)
			b = next
			return r
		})
	}
}

func rounds(n int) int {
	if algotest.Brief() {
		return n / 20
	}
	return n
}

// call is one of the typed verbs.
func call(s fixedwindow.State, v verb, at int64, o fixedwindow.Options, cost int64) (fixedwindow.State, algo.Result) {
	now := time.Unix(0, at)
	o.Cost = cost
	switch v {
	case step:
		return fixedwindow.Step(s, now, o)
	case refund:
		return fixedwindow.Refund(s, now, o)
	case charge:
		return fixedwindow.Charge(s, now, o)
	}
	return s, fixedwindow.Peek(s, now, o)
}

// callPolicy is the same verb over bytes.
func callPolicy(t *testing.T, p fixedwindow.Policy, v verb, state []byte, at, cost int64) (next []byte, r algo.Result) {
	t.Helper()
	now := time.Unix(0, at)
	var err error
	switch v {
	case step:
		next, r, err = p.Step([]byte{}, state, now, cost)
	case refund:
		next, r, err = p.Refund([]byte{}, state, now, cost)
	case charge:
		next, r, err = p.Charge([]byte{}, state, now, cost)
	default:
		next = append([]byte{}, state...)
		r, err = p.Peek(state, now, cost)
	}
	require.NoError(t, err)
	return next, r
}

// A window may move under another alignment or period: it ends where the present
// options end one that holds its first payment.
func TestTheWindowOfALiveKeyEndsByThePresentOptions(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 3))
	for range rounds(5000) {
		first, then := anyOptions(random), anyOptions(random)
		at := upTo(random, algo.MaxInstant)
		s, _ := call(fixedwindow.State{}, charge, at, first, 5)
		end := newModel(then).endOf(integer(at))
		r := fixedwindow.Peek(s, time.Unix(0, at), then)
		require.Equal(t, then.Limit.Count-5, r.Remaining)
		require.Equal(t, wait(end, at), r.ResetAfter, "%+v, then %+v, at %d", first, then, at)
	}
}
