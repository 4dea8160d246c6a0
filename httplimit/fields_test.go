package httplimit_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
)

// specs are policies of all algorithms, with periods from nanoseconds to decades.
var specs = []string{
	"gcra 1/s", "gcra 100/m burst=20", "gcra 10/s burst=500", "gcra 3/s", "gcra 7/11s burst=3", "gcra 1000/250ms", "gcra 5/h", "gcra 1/1ns",
	"gcra 4611686018427387904/s burst=4611686018427387904", "gcra 1/1000000h",
	"tokenbucket 10/s burst=50 refill=interval", "tokenbucket 3/m", "tokenbucket 7/1500ms burst=2 refill=interval", "tokenbucket 1/d",
	"fixedwindow 5/h", "fixedwindow 5/h align=clock offset=15m", "fixedwindow 2/1s", "fixedwindow 1/250ms", "fixedwindow 4611686018427387904/d",
	"movingwindow 100/m slots=12", "movingwindow 6/m slots=12 trailing=whole", "movingwindow 3/s", "movingwindow 2/7s slots=3",
	"all(gcra 10/s; gcra 100/m)", "all(fixedwindow 3/d; gcra 2/m; movingwindow 5/h slots=4)",
}

// virtual is a clock that is told the time.
type virtual struct{ now time.Time }

func (v *virtual) Now() time.Time { return v.now }

// server is a handler on a clock of its own.
type server struct {
	http.Handler
	*virtual
}

func newServer(t testing.TB, o httplimit.Options, rules ...compose.Rule[*http.Request]) server {
	t.Helper()
	v := &virtual{still().Add(1234567 * time.Microsecond)}
	limiter, err := compose.Options[*http.Request]{Clock: v.Now}.New(nil, rules...)
	require.NoError(t, err)
	return server{httplimit.Handler(limiter, hello, o), v}
}

func (s server) get(cost int64) *http.Response {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Cost", strconv.FormatInt(cost, 10))
	return respond(s, r)
}

func respond(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// byCost is a rule whose cost the request tells.
func byCost(name, spec string) compose.Rule[*http.Request] {
	return compose.Rule[*http.Request]{Name: name, Policy: mustPolicy(spec), Cost: func(r *http.Request) int64 {
		cost, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
		return cost
	}}
}

// told reads both fields, which must be well-formed, and checks what must hold of
// them whatever the policy.
func told(t testing.TB, h http.Header) (policies, limits []item) {
	t.Helper()
	policies, err := parseItems(h.Values("RateLimit-Policy"))
	require.NoError(t, err, "%q", h)
	limits, err = parseItems(h.Values("RateLimit"))
	require.NoError(t, err, "%q", h)
	quota := make(map[string]int64)
	for _, p := range policies {
		require.NotContains(t, quota, p.name)
		quota[p.name] = p.params["q"].(int64)
		require.GreaterOrEqual(t, quota[p.name], int64(0))
		if w, ok := p.params["w"]; ok {
			require.Positive(t, w)
		}
	}
	for _, l := range limits {
		require.Contains(t, quota, l.name)
		require.GreaterOrEqual(t, l.params["r"], int64(0))
		require.LessOrEqual(t, l.params["r"], quota[l.name])
		if at, ok := l.params["t"]; ok {
			require.Positive(t, at)
		}
	}
	return policies, limits
}

func TestFieldsParseForAllPolicies(t *testing.T) {
	for _, spec := range specs {
		for _, cost := range []int64{1, 2, 3, 1000, 1 << 62, math.MaxInt64} {
			s := newServer(t, httplimit.Options{}, byCost("client", spec))
			for range 4 {
				response := s.get(cost)
				policies, limits := told(t, response.Header)
				require.NotEmpty(t, policies, spec)
				require.Len(t, limits, 1, spec)
				s.now = s.now.Add(333 * time.Millisecond)
			}
		}
	}
}

func TestQuotaAndWindow(t *testing.T) {
	for spec, want := range map[string]string{
		"gcra 100/m":                               `"client";q=100;w=60`,
		"gcra 100/m burst=20":                      `"client";q=20;w=12`,
		"gcra 7/11s burst=3":                       `"client";q=3;w=5`,
		"gcra 3/3000000001ns burst=1":              `"client";q=1;w=2`,
		"gcra 1000/250ms":                          `"client";q=1000;w=1`,
		"tokenbucket 10/s burst=50":                `"client";q=50;w=5`,
		"fixedwindow 5/h":                          `"client";q=5;w=3600`,
		"movingwindow 100/1500ms":                  `"client";q=100;w=2`,
		"fixedwindow 4611686018427387904/d":        `"client";q=999999999999999;w=86400`,
		"all(gcra 10/s; gcra 100/m)":               `"client.1";q=10;w=1, "client.2";q=100;w=60`,
		"tokenbucket 1/1h burst=2 refill=interval": `"client";q=2;w=7200`,
	} {
		s := newServer(t, httplimit.Options{}, byCost("client", spec))
		require.Equal(t, want, s.get(1).Header.Get("RateLimit-Policy"), spec)
	}
}

// foreign is somebody's own policy, with a limit that takes no care.
type foreign struct {
	algo.Policy
	limit algo.Limit
}

func (f foreign) Limit() algo.Limit { return f.limit }

func TestQuotaOfForeignPolicies(t *testing.T) {
	for limit, want := range map[algo.Limit]string{
		{}:                                 `"own";q=5;w=1`,
		{Count: -1, Period: time.Second}:   `"own";q=5;w=1`,
		{Count: 2, Period: time.Second}:    `"own";q=5;w=3`,
		{Count: 1, Period: math.MaxInt64}:  `"own";q=5;w=9223372037`, // all that a duration can count
		{Count: 3, Period: math.MaxInt64}:  `"own";q=5;w=9223372037`,
		{Count: 10, Period: math.MaxInt64}: `"own";q=5;w=4611686019`,
	} {
		s := newServer(t, httplimit.Options{}, compose.Rule[*http.Request]{Name: "own", Policy: foreign{mustPolicy("gcra 5/s"), limit}})
		require.Equal(t, want, s.get(1).Header.Get("RateLimit-Policy"))
	}
}

func TestDebtIsNothingLeft(t *testing.T) {
	limiter, err := compose.Options[*http.Request]{Clock: still}.New(nil, rule("client", "gcra 10/s"))
	require.NoError(t, err)
	_, err = limiter.Charge(t.Context(), httptest.NewRequest("GET", "/", nil), 25)
	require.NoError(t, err)
	h := httplimit.Handler(limiter, hello, httplimit.Options{Legacy: true})
	response := respond(h, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, `"client";r=0;t=2`, response.Header.Get("RateLimit"))
	require.Equal(t, "2", response.Header.Get("Retry-After"))
	require.Equal(t, "0", response.Header.Get("X-RateLimit-Remaining"))
}

func TestNamesAreStrings(t *testing.T) {
	for name, want := range map[string]string{`a "b" \c`: `a "b" \c`, "café": "caf%c3%a9", "a\nb\x7f": "a%0ab%7f", "a, b;q=1": "a, b;q=1"} {
		s := newServer(t, httplimit.Options{}, byCost(name, "gcra 1/s"))
		policies, limits := told(t, s.get(1).Header)
		require.Equal(t, want, policies[0].name)
		require.Equal(t, want, limits[0].name)
	}
}

// Who waits exactly Retry-After is let in, and so is who waits for t; t is never
// later, nor is there more before it. Whoever is told that r is left can have it.
func TestWaitsAreTrue(t *testing.T) {
	denied := 0
	for _, spec := range specs {
		for _, cost := range []int64{1, 2, 5} {
			t.Run(fmt.Sprint(spec, " cost ", cost), func(t *testing.T) {
				s := newServer(t, httplimit.Options{}, byCost("client", spec))
				denials := 0
				for i := range 100 {
					s.now = s.now.Add(time.Duration(i%7) * 37 * time.Millisecond)
					response := s.get(cost)
					_, limits := told(t, response.Header)
					retry := response.Header.Get("Retry-After")
					if response.StatusCode != http.StatusTooManyRequests {
						require.Empty(t, retry)
						continue
					}
					denials++
					require.Equal(t, fmt.Sprint(limits[0].params["t"]), retry)
					wait, err := strconv.ParseInt(retry, 10, 64)
					require.NoError(t, err)
					if wait > math.MaxInt64/int64(time.Second)/2 || s.now.Add(time.Duration(wait)*time.Second).UnixNano() > algo.MaxInstant {
						break // the clocks of the algorithms end before
					}
					s.now = s.now.Add(time.Duration(wait) * time.Second)
					require.Equal(t, http.StatusOK, s.get(cost).StatusCode, "after %ds", wait)
				}
				if denials > 0 {
					denied++
				}
			})
		}
	}
	require.Greater(t, denied, len(specs), "most of these were denied sometimes")
}

// The same of two rules at once: Retry-After is the longest t of those that deny.
func TestWaitsOfSeveralRulesAreTrue(t *testing.T) {
	some := []string{"gcra 7/11s burst=3", "gcra 3/s", "tokenbucket 7/1500ms burst=2 refill=interval", "fixedwindow 5/7s align=clock offset=1s", "movingwindow 6/20s slots=5", "movingwindow 6/5s slots=3 trailing=whole"}
	for _, a := range some {
		for _, b := range some {
			s := newServer(t, httplimit.Options{}, byCost("a", a), byCost("b", b))
			for i := range 60 {
				s.now = s.now.Add(time.Duration(i%5) * 73 * time.Millisecond)
				response := s.get(int64(1 + i%2))
				_, limits := told(t, response.Header)
				if response.StatusCode == http.StatusOK {
					continue
				}
				wait, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 64)
				require.NoError(t, err)
				longest := int64(0)
				for _, name := range problemOf(t, response).Violated {
					for _, l := range limits {
						if l.name == name {
							longest = max(longest, l.params["t"].(int64))
						}
					}
				}
				require.Equal(t, longest, wait)
				s.now = s.now.Add(time.Duration(wait) * time.Second)
				require.Equal(t, http.StatusOK, s.get(int64(1+i%2)).StatusCode, "%s and %s after %ds", a, b, wait)
			}
		}
	}
}

// What t promises is as late as whole seconds allow: a second sooner it was still
// denied.
func TestRetryAfterIsNotTooLate(t *testing.T) {
	for _, spec := range []string{"gcra 1/10s", "tokenbucket 1/10s", "fixedwindow 1/10s", "movingwindow 1/10s slots=10 trailing=whole"} {
		s := newServer(t, httplimit.Options{}, byCost("client", spec))
		require.Equal(t, http.StatusOK, s.get(1).StatusCode)
		wait, err := strconv.Atoi(s.get(1).Header.Get("Retry-After"))
		require.NoError(t, err)
		s.now = s.now.Add(time.Duration(wait-1) * time.Second)
		require.Equal(t, http.StatusTooManyRequests, s.get(1).StatusCode, spec)
	}
}

func TestWhatIsLeftCanBeHad(t *testing.T) {
	for _, spec := range specs {
		s := newServer(t, httplimit.Options{}, byCost("client", spec))
		_, limits := told(t, s.get(1).Header)
		left := limits[0].params["r"].(int64)
		if left > 0 && left < 1_000_000 {
			require.Equal(t, http.StatusOK, s.get(left).StatusCode, spec)
		}
	}
}

// After t there is more, on allowed responses too.
func TestThereIsMoreAfterT(t *testing.T) {
	for _, spec := range specs {
		s := newServer(t, httplimit.Options{}, byCost("client", spec))
		var left, wait int64
		for range 3 {
			_, limits := told(t, s.get(1).Header)
			left = limits[0].params["r"].(int64)
			wait, _ = limits[0].params["t"].(int64)
		}
		if wait == 0 || wait > int64(100*365*24*time.Hour/time.Second) {
			continue // all is there again, or for ages it is not
		}
		s.now = s.now.Add(time.Duration(wait) * time.Second)
		_, limits := told(t, s.get(1).Header)
		require.GreaterOrEqual(t, limits[0].params["r"], left, spec) // one more, and that is paid
	}
}

func TestPartitionKeys(t *testing.T) {
	o := httplimit.Options{PartitionSecret: []byte("secret")}
	rules := []compose.Rule[*http.Request]{
		{Name: "a", Key: httplimit.Header("K"), Policy: mustPolicy("gcra 100/s")},
		{Name: "b", Key: httplimit.Header("K"), Policy: mustPolicy("gcra 100/s")},
	}
	s := newServer(t, o, rules...)
	seen := make(map[string]bool)
	for _, key := range []string{"ann", "bob", "ann"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("K", key)
		policies, limits := told(t, respond(s, r).Header)
		for i := range limits {
			pk := limits[i].params["pk"].([]byte)
			require.Equal(t, pk, policies[i].params["pk"])
			require.NotContains(t, string(pk), key)
			seen[string(pk)] = true
		}
	}
	require.Len(t, seen, 4, "two rules, two keys")

	o.PartitionSecret = []byte("another")
	_, limits := told(t, respond(newServer(t, o, rules...), httptest.NewRequest("GET", "/", nil)).Header)
	require.NotContains(t, seen, string(limits[0].params["pk"].([]byte)))
}
