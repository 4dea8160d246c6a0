// These tests promise that the numbers in the RateLimit fields are true: a client that
// follows them is let in, and not later than possible.
package httplimit_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/internal/structured"
	"github.com/sluice-go/sluice/storage"
)

// specs are policies of all algorithms, with periods from microseconds to years.
var specs = []string{
	"gcra 1/s", "gcra 100/m burst=20", "gcra 10/s burst=500", "gcra 3/s", "gcra 7/11s burst=3", "gcra 1000/250ms", "gcra 5/h", "gcra 1/1us",
	"gcra 1099511627776/s burst=1099511627776", "gcra 1/600000h",
	"tokenbucket 10/s burst=50 refill=interval", "tokenbucket 3/m", "tokenbucket 7/1500ms burst=2 refill=interval", "tokenbucket 1/d",
	"fixedwindow 5/h", "fixedwindow 5/h align=clock offset=15m", "fixedwindow 2/1s", "fixedwindow 1/250ms", "fixedwindow 1099511627776/d",
	"movingwindow 100/m slots=12", "movingwindow 6/m slots=12 trailing=whole", "movingwindow 3/s", "movingwindow 2/7s slots=3",
	"all(gcra 10/s; gcra 100/m)", "all(fixedwindow 3/d; gcra 2/m; movingwindow 5/h slots=4)", "all(tokenbucket 3/250ms refill=interval; fixedwindow 5/7s align=clock)",
}

// extremes are policies at the bounds of what is valid.
var extremes = []string{
	"gcra 1099511627776/1us burst=1099511627776", "gcra 100000000000/7s burst=14285714286", "gcra 1/625499h", "tokenbucket 1/1us burst=1099511627776",
	"tokenbucket 1099511627776/625499h refill=interval", "fixedwindow 1/625499h", "fixedwindow 1099511627776/1us",
	"movingwindow 1099511627776/625499h slots=64", "movingwindow 1/1us", "movingwindow 999999999999/d", "movingwindow 1000000000000/d trailing=whole",
	"all(gcra 1/1us; fixedwindow 1099511627776/625499h)", "all(" + strings.Repeat("gcra 5/s; ", 63) + "gcra 1/d)",
}

// virtual is a clock that the test sets.
type virtual struct{ now time.Time }

func (v *virtual) Now() time.Time { return v.now }

// server is a handler with a clock of its own.
type server struct {
	http.Handler
	*virtual
	limiter *sluice.Limiter[*http.Request]
}

func newServer(t testing.TB, o httplimit.Options, rules ...sluice.Rule[*http.Request]) server {
	t.Helper()
	return newServerOn(t, nil, o, rules...)
}

func newServerOn(t testing.TB, store storage.Store, o httplimit.Options, rules ...sluice.Rule[*http.Request]) server {
	t.Helper()
	v := &virtual{still().Add(1234567 * time.Microsecond)}
	limiter := newLimiter(t, limiterOptions{Clock: v.Now}, store, rules...)
	return server{httplimit.Handler(limiter, hello, o), v, limiter}
}

func (s server) get(cost int64) *http.Response { return respond(s, costing(cost)) }

// after lets the seconds pass, and then sends a request.
func (s server) after(seconds, cost int64) *http.Response {
	s.now = s.now.Add(time.Duration(seconds) * time.Second)
	return s.get(cost)
}

func costing(cost int64) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cost", strconv.FormatInt(cost, 10))
	return r
}

func respond(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// byCost is a rule whose cost is in the request.
func byCost(name, spec string) sluice.Rule[*http.Request] {
	return sluice.Rule[*http.Request]{Name: name, Spec: spec, Cost: func(r *http.Request) int64 {
		cost, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
		return cost
	}}
}

// readFields reads both fields, and checks what must hold for every policy.
func readFields(t testing.TB, h http.Header) (policies, limits []structured.Item) {
	t.Helper()
	policies, limits = read(t, h.Values("RateLimit-Policy")), read(t, h.Values("RateLimit"))
	quota := make(map[string]int64)
	for _, p := range policies {
		require.NotContains(t, quota, p.Name)
		quota[p.Name] = p.Params["q"].(int64)
		require.GreaterOrEqual(t, quota[p.Name], int64(0))
		if w, ok := p.Params["w"]; ok {
			require.Positive(t, w)
		}
	}
	for _, l := range limits {
		require.Contains(t, quota, l.Name)
		require.GreaterOrEqual(t, l.Params["r"], int64(0))
		require.LessOrEqual(t, l.Params["r"], quota[l.Name])
		if at, ok := l.Params["t"]; ok {
			require.Positive(t, at)
		}
	}
	return policies, limits
}

func read(t testing.TB, lines []string) []structured.Item {
	t.Helper()
	items, ok := structured.ReadItems(lines)
	require.True(t, ok, "%q", lines)
	return items
}

// w is the least number of whole seconds in which q units come back.
func TestWindowFitsTheQuota(t *testing.T) {
	for _, spec := range slices.Concat(specs, extremes) {
		server := newServer(t, httplimit.Options{}, byCost("client", spec))
		policies, limits := readFields(t, server.get(1).Header)
		if left := limits[0].Params["r"].(int64); left > 0 {
			require.Equal(t, http.StatusOK, server.get(left).StatusCode, "what remains of %s is available", spec)
		}
		parts := []algo.Policy{sluice.MustPolicy(spec)}
		if stack, ok := parts[0].(*compose.Stack); ok {
			parts = stack.Parts()
		}
		require.Len(t, policies, len(parts), spec)
		for i, part := range parts {
			q, w, limit := policies[i].Params["q"].(int64), policies[i].Params["w"].(int64), part.Limit()
			if q == 999_999_999_999_999 || w == math.MaxInt64/int64(time.Second)+1 {
				continue // the largest that can be written
			}
			back := func(seconds int64) int64 { // what comes back in that time
				n := new(big.Int).Mul(big.NewInt(seconds*int64(time.Second)), big.NewInt(limit.Count))
				return n.Div(n, big.NewInt(int64(limit.Period))).Int64()
			}
			require.GreaterOrEqual(t, back(w), q, spec)
			require.Less(t, back(w-1), q, spec)
		}
	}
}

// foreign is a policy of another package, whose limit may be invalid.
type foreign struct {
	algo.Policy
	limit algo.Limit
}

func (f foreign) Limit() algo.Limit { return f.limit }

func TestQuotaAndWindowOfAPolicyOfAnotherPackage(t *testing.T) {
	for want, limit := range map[string]algo.Limit{
		`"own";q=5;w=1`:          {},
		`"own";q=5;w=3`:          algo.Per(2, time.Second),
		`"own";q=5;w=9223372037`: algo.Per(1, math.MaxInt64), // the longest Duration
	} {
		s := newServer(t, httplimit.Options{}, sluice.Rule[*http.Request]{Name: "own", Policy: foreign{sluice.MustPolicy("gcra 5/s"), limit}})
		require.Equal(t, want, s.get(1).Header.Get("RateLimit-Policy"))
	}
}

// A client that waits for t is let in if nobody else spends, and a second earlier it is denied. After a
// denial t is the wait for the denied cost, and Retry-After is the same. Otherwise it is the wait for more
// than r.
func TestWaitsAreExact(t *testing.T) {
	denials, grants := 0, 0
	for _, spec := range specs {
		for _, store := range []storage.Store{nil, failing(nil)} { // the limiter caches denials of the second
			s := newServerOn(t, store, httplimit.Options{}, byCost("client", spec))
			for i := range 120 {
				s.now = s.now.Add(time.Duration(i%7) * 37 * time.Millisecond)
				if i%10 == 9 {
					_, err := s.limiter.Charge(t.Context(), costing([]int64{1, 7, 40}[i/10%3]), 1)
					require.NoError(t, err)
				}
				cost := []int64{1, 2, 1, 5}[i/20%4]
				response := s.get(cost)
				_, limits := readFields(t, response.Header)
				wait, ok := limits[0].Params["t"].(int64)
				left, denied := limits[0].Params["r"].(int64), response.StatusCode == http.StatusTooManyRequests
				if denied {
					require.Equal(t, fmt.Sprint(wait), response.Header.Get("Retry-After"))
					denials++
				} else {
					require.Empty(t, response.Header.Get("Retry-After"))
					cost = left + 1
					grants++
				}
				if !ok || left >= 1_000_000 || wait >= (algo.MaxInstant-s.now.UnixMicro())/1e6 {
					continue
				}
				require.Equal(t, http.StatusTooManyRequests, s.after(wait-1, cost).StatusCode, "%s: %d after %ds", spec, cost, wait-1)
				require.Equal(t, http.StatusOK, s.after(1, cost).StatusCode, "%s: %d after %ds", spec, cost, wait)
			}
		}
	}
	require.Greater(t, denials, 500)
	require.Greater(t, grants, 500)
}

func TestPartitionKeysHideTheKey(t *testing.T) {
	byHeader := httplimit.KeyByHeader("K").OrShare()
	partitions := func(secret, key string) (keys []any) {
		erased := []byte(secret)
		s := newServer(t, httplimit.Options{PartitionSecret: erased}, sluice.By("a", byHeader, "gcra 9/s"), sluice.By("b", byHeader, "gcra 9/s"))
		clear(erased)
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("K", key)
		h := respond(s, r).Header
		for _, field := range []string{"RateLimit-Policy", "RateLimit"} {
			for _, m := range regexp.MustCompile(`;pk=:([^:]*):`).FindAllStringSubmatch(h.Get(field), -1) {
				decoded, err := base64.StdEncoding.DecodeString(m[1])
				require.NoError(t, err)
				require.NotContains(t, string(decoded), key)
				keys = append(keys, m[1])
			}
		}
		return keys
	}
	ann := partitions("secret", "ann")
	require.Len(t, ann, 4)
	require.Equal(t, ann[:2], ann[2:], "the same in both fields")
	require.NotEqual(t, ann[0], ann[1], "two rules")
	require.Equal(t, ann, partitions("secret", "ann"))
	require.NotSubset(t, ann, partitions("secret", "bob"))
	require.NotSubset(t, ann, partitions("another", "ann"))
	require.Empty(t, partitions("", "ann"))
}
