package suggest_test

// These tests promise:
//
//   - A replay with the number found meets the goal. With one less it does not. A replay that is
//     independent of the search has the same counts (search_test.go, suggest_test.go).
//   - A log stores requests in bounded memory (suggest_test.go), and a search ends with its context (search_test.go).
//   - The error of an invalid template shows the word at fault (search_test.go).

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// request is one request of a test log.
type request struct {
	at  time.Time
	key string
}

var start = time.Unix(1_000_000_020, 0) // the start of a minute

// after returns the request of a key some time after the start.
func after(d time.Duration, key string) request { return request{start.Add(d), key} }

func search(t testing.TB, requests []request, spec, share string, of suggest.Unit) *suggest.Suggestion {
	t.Helper()
	template, err := suggest.ParseTemplate(spec)
	require.NoError(t, err)
	least, err := suggest.ParseShare(share)
	require.NoError(t, err)
	memory := suggest.Memory(1 << 30)
	log := suggest.NewLog(&memory)
	for _, r := range requests {
		_, err := log.Add(r.at, []byte(r.key))
		require.NoError(t, err)
	}
	log.Sort()
	return &suggest.Suggestion{Log: log, Template: template, Goal: suggest.Goal{Share: least, Of: of}}
}

func find(t testing.TB, requests []request, spec, share string, of suggest.Unit) *suggest.Suggestion {
	t.Helper()
	s := search(t, requests, spec, share, of)
	require.NoError(t, suggest.Run(t.Context(), func() {}, s))
	return s
}

// evenly returns n requests of one key, with a pause in seconds between two of them.
func evenly(n, pause int) (log []request) {
	for i := range n {
		log = append(log, after(time.Duration(i*pause)*time.Second, "a"))
	}
	return log
}

// TestBurstThatTakesTooLongToRefill: at 1/1000d a burst of 26 refills in 71 years, and a larger one
// is not valid.
func TestBurstThatTakesTooLongToRefill(t *testing.T) {
	log := evenly(60, 0)
	s := find(t, log, "gcra 1/1000d burst=?", "100%", suggest.OfRequests)
	require.False(t, s.Found)
	require.EqualValues(t, 26, s.Best.Number)
	require.EqualValues(t, 34, s.Best.Denied)
	s = find(t, log[:26], "gcra 1/1000d burst=?", "100%", suggest.OfRequests)
	require.True(t, s.Found)
	require.EqualValues(t, 26, s.Best.Number)
	for share, log := range map[string][]request{"100%": log[:1], "2%": evenly(100, 1)} {
		s = find(t, log, "gcra ?/26000d burst=4", share, suggest.OfRequests)
		require.EqualValues(t, 4, s.Best.Number, "with less, the burst takes longer than 71 years to refill")
		require.Nil(t, s.Tighter)
	}
}

// TestSearchGoesOnBelowANumberThatMeetsTheGoal: bursts from 1 on deny 12, 9, 6, 3, 1, 2, 1 and 0
// requests, and one may be denied. Bisection alone finds 7, because 4 and 6 deny more.
func TestSearchGoesOnBelowANumberThatMeetsTheGoal(t *testing.T) {
	var log []request
	for _, second := range []time.Duration{0, 0, 7, 7, 13, 13, 27, 41, 45, 45, 45, 51, 56, 56, 56} {
		log = append(log, after(second*time.Second, "a"))
	}
	const spec = "tokenbucket 5/20s burst=? refill=interval"
	for burst, denied := range []int64{12, 9, 6, 3, 1, 2, 1, 0} {
		require.Equal(t, denied, replayed(t, log, strings.Replace(spec, "?", strconv.Itoa(burst+1), 1)).Denied)
	}
	for _, cost := range []int{
		1,
		8,  // bisection finds 56, and the search then finds 40 below it
		20, // bisection finds 140, and 100 is a number of the curve
	} {
		s := find(t, log, fmt.Sprintf("tokenbucket %d/20s burst=? refill=interval cost=%d", 5*cost, cost), "93%", suggest.OfRequests)
		require.EqualValues(t, 1, s.MaxDenied)
		require.EqualValues(t, 5*cost, s.Best.Number)
		require.NotNil(t, s.Irregular)
	}
}

// replayed replays the requests in the order of the log, with all keys together, as sluice replay
// does. It shares no code with the search but Policy.Step.
func replayed(t testing.TB, log []request, spec string) backtest.Outcome {
	t.Helper()
	r := backtest.New(policy(t, spec))
	for _, q := range log {
		require.NoError(t, r.Add(q.at, []byte(q.key)))
	}
	return r.Report(1 << 20).Policies[0]
}

// randomLog returns a log of several shapes: steady clients, bursts, simultaneous requests.
func randomLog(random *rand.Rand) (log []request) {
	for client := range 1 + random.IntN(12) {
		at := time.Duration(random.IntN(120)) * time.Second
		resolution := []time.Duration{time.Second, time.Millisecond, 1}[random.IntN(3)]
		gap := 1 + random.IntN(20_000)
		for range 1 + random.IntN(80) {
			log = append(log, after(at.Truncate(resolution), strconv.Itoa(client)))
			if random.IntN(3) > 0 {
				at += time.Duration(random.IntN(gap)) * time.Millisecond
			}
		}
	}
	slices.SortStableFunc(log, func(a, b request) int { return a.at.Compare(b.at) })
	return log
}

var specs = []string{
	"gcra ?/m", "gcra ?/m burst=7", "gcra 20/m burst=?", "gcra ?/7s cost=3",
	"tokenbucket ?/m", "tokenbucket ?/20s burst=6 refill=interval", "tokenbucket ?/20s refill=interval", "tokenbucket 9/20s burst=? refill=interval cost=2",
	"fixedwindow ?/m", "fixedwindow ?/m align=clock offset=13s", "fixedwindow ?/30s cost=4",
	"movingwindow ?/m", "movingwindow ?/m slots=7", "movingwindow ?/m slots=4 trailing=whole", "movingwindow ?/30s cost=3",
	"all(gcra ?/m; fixedwindow 50/h)", "all(gcra 5/s; movingwindow ?/m) cost=3", "penalty(gcra ?/m; for=90s)", "calendar ?/day",
}

// TestTheNumberFoundMeetsTheGoalAndOneLessDoesNot compares random logs, policies and goals with a
// replay that is independent of the search. All counts of the suggestion are those of the replay.
func TestTheNumberFoundMeetsTheGoalAndOneLessDoesNot(t *testing.T) {
	shares := []string{"100%", "99.9%", "99%", "97.5%", "90%", "50%", "12.5%", "0.1%"}
	seeds := uint64(15)
	if sample.Brief() {
		seeds = 4
	}
	found := 0
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		log := randomLog(random)
		for _, spec := range specs {
			share, of := shares[random.IntN(len(shares))], []suggest.Unit{suggest.OfRequests, suggest.OfClients}[random.IntN(2)]
			s := find(t, log, spec, share, of)
			name := fmt.Sprintf("seed %d: %s %s of %v", seed, spec, share, of)
			total := s.Total()
			meets := func(c *suggest.Candidate) bool {
				o := replayed(t, log, c.Policy.String())
				require.Equal(t, [2]int64{o.Denied, o.KeysDenied}, [2]int64{c.Denied, c.ClientsDenied}, name)
				require.Equal(t, o.LongestWait, c.LongestWait, name)
				require.Equal(t, o.Never, c.Never, name)
				left := total - s.Goal.Count(&c.Counts)
				percent, ok := new(big.Rat).SetString(share[:len(share)-1])
				require.True(t, ok)
				return big.NewRat(100*left, total).Cmp(percent) >= 0
			}
			require.Equal(t, s.Found, meets(&s.Best), name)
			if s.Found {
				found++
				require.Equal(t, s.Best.Number > 1, s.Tighter != nil, name)
			}
			if s.Tighter != nil {
				require.Equal(t, s.Best.Number-1, s.Tighter.Number, name)
				require.False(t, meets(s.Tighter), name)
			}
			if s.Irregular != nil {
				require.Greater(t, s.Irregular.Number, s.Best.Number, name)
				require.False(t, meets(s.Irregular), name)
			}
			var denied int64
			for _, d := range s.TopDenied {
				denied += d.Denied
			}
			require.Equal(t, s.Best.Denied, denied, name)
			for i := range s.Curve {
				meets(&s.Curve[i])
				if s.Found && s.Curve[i].Number < s.Best.Number {
					require.False(t, meets(&s.Curve[i]), name)
				}
			}
		}
	}
	require.Greater(t, found, 10*int(seeds), "most goals can be met")
}

func policy(t testing.TB, spec string) costed.Policy {
	t.Helper()
	p, err := costed.Parse(spec)
	require.NoError(t, err)
	return p
}

// TestRunEndsWithItsContext: a search of one key and one of many keys both end.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, keys := range []int{1, 10_000} {
		var requests []request
		for i := range 50_000 {
			requests = append(requests, after(time.Duration(i), strconv.Itoa(i%keys)))
		}
		s := search(t, requests, "gcra ?/m", "100%", suggest.OfRequests)
		ctx, cancel := context.WithCancel(t.Context())
		replays := 0
		err := suggest.Run(ctx, func() {
			if replays++; replays == 3 {
				cancel()
			}
		}, s)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3, replays)
	}
}

// TestTemplates: an error shows the spec with its ? and the word at fault.
func TestTemplates(t *testing.T) {
	tracetest.Answers(t, "testdata/templates.txt", func(spec string) string {
		template, err := suggest.ParseTemplate(spec)
		if bad := (*compose.SpecError)(nil); errors.As(err, &bad) {
			require.Equal(t, spec, bad.Spec)
			require.Equal(t, bad.Word, spec[bad.Offset:][:len(bad.Word)], spec)
			return fmt.Sprintf("%q: %s", bad.Word, bad.Problem)
		}
		require.NoError(t, err, spec)
		require.Equal(t, strings.Join(strings.Fields(spec), " "), template.String())
		p, err := template.Policy(42)
		require.NoError(t, err, spec)
		return p.String()
	})
}

func TestCountOfAPolicyIsReplaced(t *testing.T) {
	tracetest.Answers(t, "testdata/counts.txt", func(spec string) string { return suggest.CountOf(policy(t, spec).Policy).String() })
}
