package movingwindow_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/movingwindow"
)

// FuzzStep holds every verb on any state, time and options to what needs no
// history: no panic, accounts that add up, waits that come true, and where the
// options are valid the answers of the model and of the encoded state. A width of
// 0 stands for that of the options. Counts are of 8 bytes each, little endian.
func FuzzStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, count, period int64, slots, trailing int, cost, at, width int64, counts []byte, sec, nsec int64) {
		o := movingwindow.Options{
			Limit: algo.Per(count, time.Duration(period)),
			Slots: slots, Trailing: movingwindow.Trailing(trailing), Cost: cost,
		}
		if width == 0 && o.Validate() == nil {
			width = min(newModel(o).width().Int64(), algo.MaxInstant+1)
		}
		s := stateOf(at, width, counts)
		many := slices.Clone(s.Many)
		now := time.Unix(sec, nsec)
		for v := step; v <= charge; v++ {
			next, r := verbs[v](s, now, o)
			require.Equal(t, many, s.Many, "the argument was modified")
			addsUp(t, r)
			if o.Validate() != nil {
				require.Equal(t, s, next)
				require.Equal(t, algo.Never, r.RetryAfter, "invalid options do not deny")
				continue
			}
			sameAsModel(t, s, v, algo.Instant(now), o, r)
			sameAsBytes(t, s, v, algo.Instant(now), o, next, r)
			require.Equal(t, r.Remaining, movingwindow.Peek(next, now, o).Remaining)
		}
		comesTrue(t, s, algo.Instant(now), o)
	})
}

func stateOf(at, width int64, counts []byte) movingwindow.State {
	s := movingwindow.State{At: at, Width: width}
	to := s.Few[:]
	if len(counts)/8 > len(s.Few) {
		s.Many = make([]int64, len(counts)/8)
		to = s.Many
	}
	for i := range len(counts) / 8 {
		to[i] = int64(binary.LittleEndian.Uint64(counts[8*i:]))
	}
	return s
}

func addsUp(t *testing.T, r algo.Result) {
	t.Helper()
	require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
	require.LessOrEqual(t, r.Remaining, r.Limit)
	for _, d := range []time.Duration{r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew} {
		require.GreaterOrEqual(t, d, time.Duration(0))
	}
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	require.Equal(t, r.Remaining == r.Limit, r.NextRefill == 0 && r.ResetAfter == 0)
	require.LessOrEqual(t, r.NextRefill, r.ResetAfter)
}

// sameAsModel compares an answer with the model's, of a state that a step could
// have returned under these options.
func sameAsModel(t *testing.T, s movingwindow.State, v verb, now int64, o movingwindow.Options, r algo.Result) {
	t.Helper()
	m := newModel(o)
	if s.Width != m.width().Int64() || s.At < 0 || s.At > algo.MaxInstant {
		return
	}
	counts := s.Few[:]
	if s.Many != nil {
		counts = s.Many
	}
	total := new(big.Int)
	m.latest = integer(s.At)
	for i, units := range counts {
		begin := new(big.Int).Sub(m.slot(m.latest), integer(int64(i)))
		begin.Mul(begin, m.width())
		if units < 0 || units > algo.MaxCount || total.Add(total, integer(units)).Cmp(integer(math.MaxInt64)) > 0 {
			return
		}
		if units > 0 && int64(i) <= m.slots().Int64() {
			m.log = slices.Insert(m.log, 0, payment{begin, integer(units)})
		}
	}
	cost := max(o.Cost, 1)
	if v == charge {
		room := new(big.Int).Sub(integer(algo.MaxCount), m.total(now))
		if room.Cmp(integer(cost)) < 0 { // the model takes all that it is asked for
			require.Equal(t, max(0, room.Int64()), r.Paid)
			return
		}
	}
	_, want := m.do(v, now, cost)
	require.Equal(t, want, r)
}

// sameAsBytes requires the encoded state to move as the typed one does.
func sameAsBytes(t *testing.T, s movingwindow.State, v verb, now int64, o movingwindow.Options, next movingwindow.State, r algo.Result) {
	t.Helper()
	p, err := movingwindow.New(o)
	require.NoError(t, err)
	encoded := movingwindow.AppendState(nil, s)
	bytes, same := callPolicy(t, p, v, encoded, now, 0)
	require.Equal(t, r, same)
	again, err := movingwindow.ParseState(bytes)
	require.NoError(t, err)
	if nearest, err := movingwindow.ParseState(encoded); err != nil || !reflect.DeepEqual(nearest, s) {
		next, _ = verbs[v](nearest, time.Unix(0, now), o) // what is too old to matter may differ
	}
	require.Equal(t, movingwindow.AppendState([]byte{}, next), bytes)
	if r.Paid != 0 && encodes(next) {
		require.Equal(t, next, again)
	}
}

// encodes reports whether an encoding holds all counts.
func encodes(s movingwindow.State) bool {
	sum := new(big.Int)
	for _, c := range append(s.Few[:], s.Many...) {
		sum.Add(sum, integer(c))
	}
	return sum.IsInt64()
}

// comesTrue checks the waits that end before the end of time.
func comesTrue(t *testing.T, s movingwindow.State, now int64, o movingwindow.Options) {
	t.Helper()
	check := func(wait time.Duration, isTrue func(r algo.Result) bool) {
		if wait < 1 || int64(wait) > algo.MaxInstant-now {
			return
		}
		at, before := look(s, now+int64(wait), o), look(s, now+int64(wait)-1, o)
		require.True(t, isTrue(at), "after %v: %+v", wait, at)
		require.False(t, isTrue(before), "1ns before %v: %+v", wait, before)
	}
	r := look(s, now, o)
	check(r.RetryAfter, func(r algo.Result) bool { return r.Allowed })
	check(r.NextRefill, func(at algo.Result) bool { return at.Remaining > r.Remaining })
	check(r.ResetAfter, func(r algo.Result) bool { return r.Fresh })
}

// FuzzDecode holds any bytes to be refused, or to be the one encoding of a state
// that steps.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := movingwindow.ParseState(b)
		if err != nil {
			require.True(t, errors.Is(err, algo.ErrState) || errors.Is(err, algo.ErrStateVersion))
			require.Zero(t, s)
			return
		}
		require.LessOrEqual(t, 8*cap(s.Many), 8*len(b), "more room than there are bytes")
		require.Equal(t, string(b), string(movingwindow.AppendState(nil, s)))
		for _, slots := range []int{1, 12, 30} {
			o := movingwindow.Options{Limit: algo.Per(7, time.Second), Slots: slots, Cost: 2}
			for _, now := range []time.Time{{}, time.Unix(0, s.At), time.Unix(0, s.At).Add(time.Minute), time.Unix(math.MaxInt64, 0)} {
				next, r := movingwindow.Step(s, now, o)
				addsUp(t, r)
				sameAsBytes(t, s, step, algo.Instant(now), o, next, r)
			}
		}
	})
}
