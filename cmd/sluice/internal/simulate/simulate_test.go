package simulate_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/costed"
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

func TestClientsCallAgainAsTheirReactionSays(t *testing.T) {
	p := sluice.MustPolicy("gcra 1/s burst=1")
	three := stream(0, 0, 0)

	all, o := calls(t, p, three, simulate.Options{})
	require.Equal(t, []time.Duration{0, 0, 0}, times(all))
	require.EqualValues(t, 1, o.Allowed)
	require.EqualValues(t, 2, o.Unserved)

	// Both wait 1s, and the second of them has to wait once more.
	all, o = calls(t, p, three, simulate.Options{Reaction: simulate.Wait})
	require.Equal(t, []time.Duration{0, 0, 0, time.Second, time.Second, 2 * time.Second}, times(all))
	require.EqualValues(t, 3, o.Allowed)
	require.EqualValues(t, 3, o.Denied)
	require.Zero(t, o.Unserved)
	require.Equal(t, 3, all[5].Attempt)

	all, o = calls(t, p, stream(0, 0), simulate.Options{Reaction: simulate.Retry})
	require.Len(t, all, 12)
	require.Equal(t, time.Second, times(all)[11])
	require.EqualValues(t, 2, o.Allowed)

	all, o = calls(t, sluice.MustPolicy("gcra 1/h burst=1"), stream(0, 0), simulate.Options{Reaction: simulate.Retry})
	require.Len(t, all, 21, "the first call, and 20 of the denied client")
	require.EqualValues(t, 1, o.Unserved)

	all, _ = calls(t, sluice.MustPolicy("gcra 1/h burst=1"), stream(0, 0), simulate.Options{Reaction: simulate.Backoff, Seed: 1})
	require.Len(t, all, 9)
	for i, at := range times(all)[2:] {
		gap, longest := at-times(all)[i+1], time.Second<<i
		require.LessOrEqual(t, gap, longest)
		require.Greater(t, gap, longest/2)
	}
}

func TestACallThatCanNeverBeAllowedIsNotRepeated(t *testing.T) {
	s := stream(0)
	s.Arrivals[0].Cost = 2
	_, o := calls(t, sluice.MustPolicy("gcra 1/s burst=1"), s, simulate.Options{Reaction: simulate.Wait})
	require.Equal(t, simulate.Outcome{Counts: backtest.Counts{Denied: 1, Never: 1}, Calls: 1, Unserved: 1, AllowedByProcess: []int64{0}}, o)
}

func TestUnknownReactionIsRefused(t *testing.T) {
	_, err := simulate.New(costed.One(sluice.MustPolicy("gcra 1/s")), stream(0), simulate.Options{Reaction: "sulk"})
	require.ErrorContains(t, err, `unknown reaction "sulk"; want ignore, retry, backoff or wait`)
}

func TestTheClockOfTheStoreIgnoresSkews(t *testing.T) {
	p, s := sluice.MustPolicy("movingwindow 5/10s slots=2"), simulate.Poisson(simulate.Shape{Pace: time.Second, Length: time.Hour, Clients: 3, Seed: 7})
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
	p, s := sluice.MustPolicy("fixedwindow 10/m align=clock"), simulate.Steady(simulate.Shape{Pace: 100 * time.Millisecond, Length: time.Minute, Clients: 1})
	_, o := calls(t, p, s, simulate.Options{Skews: []time.Duration{0, time.Hour}, OwnClocks: true})
	require.Greater(t, o.Worst, int64(10), "more than the limit within one window of true time")
	all, _ := calls(t, p, stream(0, 0), simulate.Options{Skews: []time.Duration{0, time.Hour}, OwnClocks: true})
	require.Equal(t, time.Hour.Microseconds(), all[1].Now-all[1].At)
}

func TestSharedKeyIsOneLimitForAllClients(t *testing.T) {
	s := simulate.Steady(simulate.Shape{Pace: time.Second, Length: 10 * time.Second, Clients: 3})
	p := sluice.MustPolicy("fixedwindow 2/h")
	_, each := calls(t, p, s, simulate.Options{})
	_, all := calls(t, p, s, simulate.Options{Shared: true})
	require.EqualValues(t, 6, each.Allowed)
	require.EqualValues(t, 2, all.Allowed)
}

func TestUnnecessaryDenialsAreThoseThatAnExactLogAllows(t *testing.T) {
	// The second call is 900ms early for gcra, but the last second has only one allowed call.
	all, o := calls(t, sluice.MustPolicy("gcra 2/2s burst=1"), stream(0, 100*time.Millisecond), simulate.Options{})
	require.True(t, all[1].Unnecessary())
	require.EqualValues(t, 1, o.Unnecessary)
	all, _ = calls(t, sluice.MustPolicy("fixedwindow 1/s"), stream(0, 100*time.Millisecond), simulate.Options{})
	require.False(t, all[1].Unnecessary())
	require.Equal(t, 900*time.Millisecond, all[1].ExactWait)
}

// TestWorstPeriodIsThatOfAlgotest: with costs, retries and several keys.
func TestWorstPeriodIsThatOfAlgotest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		s := simulate.Bursts(simulate.Shape{Pace: 200 * time.Millisecond, Length: 20 * time.Second, Clients: 2, Seed: random.Uint64()})
		for i := range s.Arrivals {
			s.Arrivals[i].Cost = random.Int64N(4)
		}
		p := sluice.MustPolicy("tokenbucket 7/3s burst=12")
		all, o := calls(t, p, s, simulate.Options{Reaction: simulate.Backoff})
		logs := make([]algotest.Log, 2)
		for i := range all {
			if c := &all[i]; c.Result.Allowed {
				logs[c.Client].Add(time.UnixMicro(c.At), c.Result.Paid)
			}
		}
		require.Equal(t, max(logs[0].Worst(3*time.Second), logs[1].Worst(3*time.Second)), o.Worst)
		require.Equal(t, logs[o.WorstClient].Admitted(time.UnixMicro(o.WorstEnd).Add(time.Microsecond-3*time.Second), 3*time.Second), o.Worst)
	}
}

func TestLevelHasTheRemainingUnitsOverTime(t *testing.T) {
	run, err := simulate.New(costed.One(sluice.MustPolicy("tokenbucket 2/2s")), stream(0, time.Second), simulate.Options{})
	require.NoError(t, err)
	begin := simulate.Epoch.UnixMicro()
	level := &simulate.Level{From: begin, To: begin + 3_000_000, Samples: 4}
	run.Watch(level)
	for _, err := range run.Calls() {
		require.NoError(t, err)
	}
	var at []time.Duration
	for _, i := range level.At {
		at = append(at, time.Duration(i-begin)*time.Microsecond)
	}
	require.Equal(t, []time.Duration{0, 0, 0, time.Second, time.Second, time.Second, 2 * time.Second, 3 * time.Second}, at)
	require.Equal(t, []int64{2, 1, 1, 2, 1, 1, 2, 2}, level.Left, "before, after and at each sample")
}

func TestStreamsHaveTheirShape(t *testing.T) {
	shape := simulate.Shape{Pace: 100 * time.Millisecond, Length: 10 * time.Minute, Clients: 4, Limit: algo.Per(30, time.Minute), Seed: 3}
	for name, generate := range map[string]func(simulate.Shape) simulate.Stream{
		"steady": simulate.Steady, "poisson": simulate.Poisson, "bursts": simulate.Bursts,
		"edge": simulate.Edge, "greedy": simulate.Greedy, "crowd": simulate.Crowd,
	} {
		s := generate(shape)
		require.Equal(t, s, generate(shape), "%s is deterministic", name)
		require.True(t, slices.IsSortedFunc(s.Arrivals, func(a, b simulate.Arrival) int { return int(a.At - b.At) }), name)
		seen := make(map[int32]int)
		for _, a := range s.Arrivals {
			seen[a.Client]++
		}
		require.GreaterOrEqual(t, s.Arrivals[0].At, simulate.Epoch.UnixMicro(), name)
		require.LessOrEqual(t, s.Arrivals[len(s.Arrivals)-1].At, simulate.Epoch.UnixMicro()+shape.Length.Microseconds(), name)
		require.Len(t, seen, 4, name)
		require.Len(t, s.Clients, 4, name)
		if name != "edge" {
			require.InEpsilon(t, 6000, len(s.Arrivals), 0.25, name)
		}
		if name == "greedy" {
			require.InEpsilon(t, len(s.Arrivals)/2, seen[0], 0.1)
		}
	}
	crowd := simulate.Crowd(shape)
	within := algotest.Log{}
	for _, a := range crowd.Arrivals[:1500] {
		within.Add(time.UnixMicro(a.At), 1)
	}
	require.EqualValues(t, 1500, within.Worst(shape.Limit.Period/100))
}

func TestStreamsOfExtremeShapesEnd(t *testing.T) {
	for _, limit := range []algo.Limit{algo.Per(1, time.Microsecond), algo.Per(algo.MaxCount, algo.MaxPeriod), algo.Per(algo.MaxCount, time.Second), algo.Per(1, algo.MaxPeriod)} {
		for _, shape := range []simulate.Shape{
			{Pace: 1, Length: 366 * 24 * time.Hour, Clients: 1000, Limit: limit},
			{Pace: time.Hour, Length: time.Millisecond, Clients: 1, Limit: limit},
		} {
			for _, generate := range []func(simulate.Shape) simulate.Stream{simulate.Edge, simulate.Crowd} {
				require.LessOrEqual(t, len(generate(shape).Arrivals), simulate.MaxArrivals)
			}
		}
	}
}

func TestWorstCaseStaysWithinTheBound(t *testing.T) {
	for _, spec := range []string{"gcra 30/m burst=10", "fixedwindow 30/m", "movingwindow 30/m slots=3", "tokenbucket 5/s refill=interval",
		"gcra 1000000/s", "all(gcra 10/s; gcra 100/m)", "gcra 1/26000d", "fixedwindow 1099511627776/26062d"} {
		p := sluice.MustPolicy(spec)
		s := simulate.WorstCase(p)
		require.NotEmpty(t, s.Arrivals, spec)
		_, o := calls(t, p, s, simulate.Options{})
		require.Zero(t, o.Denied, spec)
		require.LessOrEqual(t, o.Worst, p.Bound(p.Limit().Period), spec)
		require.Greater(t, o.Worst, int64(0), spec)
	}
}

// The pauses of this stream have a mean of 30 years, and with this seed one has over 292 years.
func TestAPauseThatOverflowsEndsTheStream(t *testing.T) {
	const year = 366 * 24 * time.Hour
	s := simulate.Bursts(simulate.Shape{Pace: year, Length: year, Clients: 1, Seed: 19032})
	for _, a := range s.Arrivals {
		require.GreaterOrEqual(t, a.At, simulate.Epoch.UnixMicro())
	}
}
