package simulate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// stream returns calls of one client at these times after the epoch.
func stream(at ...time.Duration) simulate.Stream {
	s := simulate.Stream{Clients: []string{"ann"}}
	for _, d := range at {
		s.Arrivals = append(s.Arrivals, simulate.Arrival{At: simulate.Epoch.UnixMicro() + d.Microseconds()})
	}
	return s
}

// calls runs a simulation to its end.
func calls(t *testing.T, p algo.Policy, s simulate.Stream, o simulate.Options) ([]simulate.Call, simulate.Outcome) {
	t.Helper()
	run, err := simulate.New(costed.One(p), s, o)
	require.NoError(t, err)
	var all []simulate.Call
	for c, err := range run.Calls() {
		require.NoError(t, err)
		all = append(all, *c)
	}
	return all, run.Outcome()
}

// times returns the times of calls after the epoch.
func times(all []simulate.Call) (at []time.Duration) {
	for i := range all {
		at = append(at, time.Duration(all[i].At-simulate.Epoch.UnixMicro())*time.Microsecond)
	}
	return at
}

// TestClientsCallAgainAsTheirReactionSays: a question has a policy, calls and a reaction. x2 behind a time is a call that costs 2.
func TestClientsCallAgainAsTheirReactionSays(t *testing.T) {
	tracetest.Answers(t, "testdata/reactions.txt", func(question string) string {
		words := strings.Split(question, " | ")
		var s simulate.Stream
		for _, word := range strings.Fields(words[1]) {
			at, two := strings.CutSuffix(word, "x2")
			d, err := time.ParseDuration(at)
			require.NoError(t, err)
			s.Clients, s.Arrivals = []string{"ann"}, append(s.Arrivals, stream(d).Arrivals...)
			if two {
				s.Arrivals[len(s.Arrivals)-1].Times = 2
			}
		}
		all, o := calls(t, sluice.MustPolicy(words[0]), s, simulate.Options{Reaction: simulate.Reaction(words[2])})
		var list []string
		for i, at := range times(all) {
			word := at.String()
			if all[i].Attempt > 1 {
				word += fmt.Sprint(" #", all[i].Attempt)
			}
			switch {
			case all[i].Unnecessary():
				word += " denied unnecessarily"
			case !all[i].Result.Allowed:
				word += " denied"
			}
			list = append(list, word)
		}
		return fmt.Sprintf("%s\nallowed %d, denied %d, never %d, unserved %d, unnecessary %d",
			strings.Join(list, ", "), o.Allowed, o.Denied, o.Never, o.Unserved, o.Unnecessary)
	})
	all, _ := calls(t, sluice.MustPolicy("gcra 1/h burst=1"), stream(0, 0), simulate.Options{Reaction: simulate.Backoff, Seed: 1})
	require.Len(t, all, 9)
	for i, at := range times(all)[2:] {
		gap, longest := at-times(all)[i+1], time.Second<<i
		require.LessOrEqual(t, gap, longest)
		require.Greater(t, gap, longest/2)
	}
}

func TestTheClockOfTheStoreIgnoresSkews(t *testing.T) {
	p, s := sluice.MustPolicy("movingwindow 5/10s slots=2"), simulate.Poisson(simulate.Shape{Requests: 3600, Length: time.Hour, Clients: 3, Seed: 7})
	skews := []time.Duration{0, 5 * time.Second, time.Hour, -time.Hour}
	one, _ := calls(t, p, s, simulate.Options{})
	fleet, o := calls(t, p, s, simulate.Options{Skews: skews})
	for i := range one {
		require.Equal(t, one[i].Result, fleet[i].Result)
		require.Equal(t, i%4, fleet[i].Process)
	}
	var sum int64
	for _, n := range o.AllowedByProcess {
		sum += n
	}
	require.Equal(t, o.Allowed, sum)
	require.LessOrEqual(t, o.Worst, p.Bound(10*time.Second))
}

// TestOwnClocksAllowMore: a process that is an hour ahead refills the bucket at each of its decisions.
func TestOwnClocksAllowMore(t *testing.T) {
	p, s := sluice.MustPolicy("fixedwindow 10/m align=clock"), simulate.Steady(simulate.Shape{Requests: 600, Length: time.Minute, Clients: 1})
	_, o := calls(t, p, s, simulate.Options{Skews: []time.Duration{0, time.Hour}, OwnClocks: true})
	require.Greater(t, o.Worst, int64(10), "more than the limit within one window of true time")
	all, _ := calls(t, p, stream(0, 0), simulate.Options{Skews: []time.Duration{0, time.Hour}, OwnClocks: true})
	require.Equal(t, time.Hour.Microseconds(), all[1].Now-all[1].At)
}

func TestSharedKeyIsOneLimitForAllClients(t *testing.T) {
	s := simulate.Steady(simulate.Shape{Requests: 10, Length: 10 * time.Second, Clients: 3})
	p := sluice.MustPolicy("fixedwindow 2/h")
	_, each := calls(t, p, s, simulate.Options{})
	_, all := calls(t, p, s, simulate.Options{Shared: true})
	require.EqualValues(t, 6, each.Allowed)
	require.EqualValues(t, 2, all.Allowed)
}

// TestExactLogAndWorstPeriodAgreeWithAlgotest: with costs, retries and several keys, also beyond the limit.
func TestExactLogAndWorstPeriodAgreeWithAlgotest(t *testing.T) {
	random, limit := rand.New(rand.NewPCG(1, 2)), algo.Per(7, 3*time.Second)
	for range 10 {
		s := simulate.Bursts(simulate.Shape{Requests: 100, Length: 20 * time.Second, Clients: 2, Seed: random.Uint64()})
		for i := range s.Arrivals {
			s.Arrivals[i].At -= s.Arrivals[i].At % 100_000 // several calls at one instant
			s.Arrivals[i].Times = random.Int64N(4)
		}
		p := sluice.MustPolicy("tokenbucket 7/3s burst=12")
		all, o := calls(t, p, s, simulate.Options{Reaction: simulate.Backoff})
		logs := make([]algotest.Log, 2)
		for i := range all {
			c := &all[i]
			log, at := &logs[c.Client], time.UnixMicro(c.At)
			room := func(at time.Time) bool {
				return log.Admitted(at.Add(1-limit.Period), limit.Period)+c.Cost <= limit.Count
			}
			require.True(t, room(at.Add(c.ExactWait)), "%+v", c)
			require.False(t, c.ExactWait > 0 && room(at.Add(c.ExactWait-1)), "%+v", c)
			if c.Result.Allowed {
				log.Add(at, c.Result.Paid)
			}
		}
		require.Equal(t, max(logs[0].Worst(limit.Period), logs[1].Worst(limit.Period)), o.Worst)
		begin := time.UnixMicro(o.WorstEnd).Add(time.Microsecond - limit.Period)
		require.Equal(t, max(logs[0].Admitted(begin, limit.Period), logs[1].Admitted(begin, limit.Period)), o.Worst)
	}
}

// levelOf returns the level in a simulation from the epoch on.
func levelOf(t *testing.T, spec string, s simulate.Stream, length time.Duration, samples int) *simulate.Level {
	run, err := simulate.New(costed.One(sluice.MustPolicy(spec)), s, simulate.Options{})
	require.NoError(t, err)
	begin := simulate.Epoch.UnixMicro()
	level := &simulate.Level{From: begin, To: begin + length.Microseconds(), Samples: samples}
	run.Watch(level)
	for _, err := range run.Calls() {
		require.NoError(t, err)
	}
	return level
}

func TestLevelHasTheRemainingUnitsOverTime(t *testing.T) {
	level := levelOf(t, "tokenbucket 2/2s", stream(0, time.Second), 3*time.Second, 4)
	var at []time.Duration
	for _, i := range level.At {
		at = append(at, time.Duration(i-level.From)*time.Microsecond)
	}
	require.Equal(t, []time.Duration{0, 0, 0, time.Second, time.Second, time.Second, 2 * time.Second, 3 * time.Second}, at)
	require.Equal(t, []int64{2, 1, 1, 2, 1, 1, 2, 2}, level.Left, "before, after and at each sample")
}

// With many calls between two samples, the level still shows that each window begins with the whole
// limit and ends with nothing.
func TestLevelKeepsTheExtremesOfManyCalls(t *testing.T) {
	stream := simulate.Steady(simulate.Shape{Requests: 36_000, Length: time.Hour, Clients: 1})
	level := levelOf(t, "fixedwindow 30/m align=clock", stream, time.Hour, 61)
	require.True(t, slices.IsSorted(level.At))
	require.LessOrEqual(t, len(level.At), 3*level.Samples)
	type point struct{ minute, left int64 }
	shown := map[point]bool{}
	for i, at := range level.At {
		shown[point{(at - level.From) / time.Minute.Microseconds(), level.Left[i]}] = true
	}
	for minute := range int64(60) {
		require.True(t, shown[point{minute, 30}] && shown[point{minute, 0}], "minute %d", minute)
	}
}

func TestStreamsHaveTheirShape(t *testing.T) {
	shape := simulate.Shape{Requests: 6000, Length: 10 * time.Minute, Clients: 4, Limit: algo.Per(30, time.Minute), Seed: 3}
	for name, generate := range map[string]func(simulate.Shape) simulate.Stream{
		"steady": simulate.Steady, "poisson": simulate.Poisson, "bursts": simulate.Bursts,
		"edge": simulate.Edge, "greedy": simulate.Greedy, "crowd": simulate.Crowd,
	} {
		s := generate(shape)
		require.Equal(t, s, generate(shape), "%s is deterministic", name)
		require.True(t, slices.IsSortedFunc(s.Arrivals, func(a, b simulate.Arrival) int { return cmp.Compare(a.At, b.At) }), name)
		seen := make(map[int32]int)
		for _, a := range s.Arrivals {
			seen[a.Client]++
		}
		require.GreaterOrEqual(t, s.Arrivals[0].At, simulate.Epoch.UnixMicro(), name)
		require.LessOrEqual(t, s.Arrivals[len(s.Arrivals)-1].At, simulate.Epoch.UnixMicro()+shape.Length.Microseconds(), name)
		require.Len(t, seen, 4, name)
		require.Len(t, s.Clients, 4, name)
		if name == "greedy" {
			require.InEpsilon(t, len(s.Arrivals)/2, seen[0], 0.1)
		}
	}
	wave := algotest.Log{}
	for _, a := range simulate.Crowd(shape).Arrivals[:1500] {
		wave.Add(time.UnixMicro(a.At), 1)
	}
	require.EqualValues(t, 1500, wave.Worst(shape.Limit.Period/100))
}

// The limits have the shortest and the longest distance between two requests.
func TestEdgesOfExtremeLimitsEnd(t *testing.T) {
	for _, limit := range []algo.Limit{algo.Per(1, time.Microsecond), algo.Per(algo.MaxCount, algo.MaxPeriod), algo.Per(algo.MaxCount, time.Second), algo.Per(1, algo.MaxPeriod)} {
		for _, length := range []time.Duration{time.Millisecond, 366 * 24 * time.Hour} {
			n := len(simulate.Edge(simulate.Shape{Length: length, Clients: 1000, Limit: limit}).Arrivals)
			require.Positive(t, n)
			require.LessOrEqual(t, n, simulate.MaxArrivals)
		}
	}
}

// shared is a store that limiters use as if it were on a server.
type shared struct{ storage.Store }

// randomStream returns calls of one client in busy and in quiet times, not two at the same instant.
func randomStream(random *rand.Rand, n int) simulate.Stream {
	var at []time.Duration
	last, gap := time.Duration(0), time.Second
	for range n {
		if random.IntN(50) == 0 {
			gap = time.Millisecond << random.IntN(12)
		}
		last += time.Microsecond + time.Duration(random.Int64N(int64(gap))).Truncate(time.Microsecond)
		at = append(at, last)
	}
	return stream(at...)
}

func TestCallsBoughtAheadAreDecidedAsByALimiter(t *testing.T) {
	for seed, spec := range []string{"gcra 100/s", "tokenbucket 200/m", "fixedwindow 400/m", "movingwindow 300/m slots=4", "all(gcra 100/s; fixedwindow 900/m)", "penalty(fixedwindow 400/m; for=3s)"} {
		for processes := 1; processes <= 3; processes++ {
			synctest.Test(t, func(t *testing.T) {
				s := randomStream(rand.New(rand.NewPCG(uint64(seed), uint64(processes))), 3000)
				all, o := calls(t, sluice.MustPolicy(spec), s, simulate.Options{
					Skews: make([]time.Duration, processes), Prepay: sluice.Prepay{Calls: 20, For: 100 * time.Millisecond},
				})
				began, store := time.Now(), shared{&memory.Store{Clock: time.Now}}
				var limiters []*sluice.Limiter[string]
				for range processes {
					l, err := sluice.Options[string]{Prepay: sluice.Prepay{Calls: 20, For: 100 * time.Millisecond}}.New(store, sluice.PerKey(spec))
					require.NoError(t, err)
					limiters = append(limiters, l)
				}
				prepaid := int64(0)
				for i, c := range all {
					time.Sleep(time.Until(began.Add(time.Duration(c.At-simulate.Epoch.UnixMicro()) * time.Microsecond)))
					d, err := limiters[c.Process].Allow(t.Context(), "ann")
					require.NoError(t, err)
					require.Equal(t, d.Prepaid, c.Prepaid, "%s, call %d of %d processes", spec, i, processes)
					want := d.Results[0].Result
					want.Skew = 0
					require.Equal(t, want, c.Result, "%s, call %d of %d processes", spec, i, processes)
					if d.Prepaid {
						prepaid++
					}
				}
				require.Equal(t, prepaid, o.Prepaid)
				require.Greater(t, o.Prepaid, o.Calls/20, spec)
				require.Positive(t, o.Denied, spec)
				limit := sluice.MustPolicy(spec).Limit()
				require.LessOrEqual(t, o.Worst, sluice.MustPolicy(spec).Bound(limit.Period+100*time.Millisecond))
			})
		}
	}
}
