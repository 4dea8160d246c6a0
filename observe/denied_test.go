// These tests promise which denials are counted, that the counts are within their errors,
// and that the memory is bounded.
package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestDeniedCountsOnlyEnforcedRules(t *testing.T) {
	d := NewDenied(0)
	l := newLimiter(t, sluice.Options[string]{Observer: d.Observe}, nil,
		sluice.Rule[string]{Name: "client", Key: byItself, Spec: "gcra 1/m"}, sluice.Rule[string]{Name: "new", Key: byItself, Spec: "gcra 1/h", Shadow: true})
	for _, key := range []string{"ann", "bob", "ann", "cid", "ann", "bob"} {
		_, err := l.Allow(ctx, key)
		require.NoError(t, err)
	}
	_, err := l.Peek(ctx, "ann") // does not count
	require.NoError(t, err)
	_, err = l.AllowN(ctx, "ann", 0) // is an error
	require.Error(t, err)
	allowedAnyway := denialOf(denied("client", "ann"))
	allowedAnyway.Outcome, allowedAnyway.Decision.Allowed = sluice.Allowed, true
	d.Observe(context.Background(), allowedAnyway)
	d.Observe(context.Background(), denialOf(denied("user", "eve"), denied("address", "eve"), allowed("everyone", "")))

	local := newLimiter(t, sluice.Options[string]{OnFailure: sluice.FailLocal, Observer: d.Observe}, down(), sluice.Rule[string]{Name: "local", Key: byItself, Spec: "gcra 1/m"})
	for range 4 { // while the store is down, a limiter in memory decides
		_, err := local.Allow(ctx, "ann")
		require.NoError(t, err)
	}
	require.Equal(t, []DeniedKey{{Rule: "local", Key: "ann", Count: 3}, {Rule: "client", Key: "ann", Count: 2}, {Rule: "address", Key: "eve", Count: 1},
		{Rule: "client", Key: "bob", Count: 1}, {Rule: "user", Key: "eve", Count: 1}}, d.Top())
}

func FuzzListIsWithinItsBounds(f *testing.F) {
	f.Add(3, []byte("abacabadabacabaeabacabadabacaba"))
	f.Add(0, []byte("abcdefghiiiijjjjj")) // more keys than counters
	f.Fuzz(func(t *testing.T, size int, stream []byte) {
		d, exact := NewDenied(1+(size%4+4)%4), map[string]uint64{}
		for _, item := range stream {
			d.add("client", string(item))
			exact[string(item)]++
			requireBounds(t, d, exact)
		}
	})
}

func requireBounds(t *testing.T, d *Denied, exact map[string]uint64) {
	t.Helper()
	var total, counted uint64
	for _, n := range exact {
		total += n
	}
	r, most := d.report(), total/uint64(d.size)
	ok := r.Denials == total && len(r.Keys) <= d.size && r.Missing <= most
	missing := maps.Clone(exact)
	for i, k := range r.Keys {
		n := exact[k.Key]
		ok = ok && k.Count-k.ErrorBound <= n && n <= k.Count && k.ErrorBound <= most && (i == 0 || k.Count <= r.Keys[i-1].Count)
		delete(missing, k.Key)
	}
	for _, n := range missing {
		ok = ok && n <= r.Missing
	}
	for _, c := range d.counters {
		ok = ok && c.errorBound <= total/uint64(d.size*countersPerKey)
		ok = ok && (c.errorBound == 0 || len(exact) > d.size*countersPerKey) && cap(c.key) <= 2*MaxDeniedKey
		counted += d.counts[c.rank]
	}
	ok = ok && len(exact)-len(missing) == len(r.Keys) // none is listed twice
	ok = ok && counted == total && len(d.counters) <= d.size*countersPerKey && len(d.index) == len(d.counters)
	if !ok {
		t.Fatalf("after %d denials of %d keys: %+v", total, len(exact), r)
	}
}

func TestLongKeysAreCutAndStayDistinct(t *testing.T) {
	d := NewDenied(10)
	long := strings.Repeat("k", MaxDeniedKey+1)
	for _, key := range []string{long, long, long + "a", long[:MaxDeniedKey], "short"} {
		d.add("client", key)
	}
	top := d.Top()
	require.Len(t, top, 4)
	keys := map[string]bool{}
	for _, k := range top {
		require.LessOrEqual(t, len(k.Key), MaxDeniedKey)
		keys[k.Key] = true
	}
	require.Len(t, keys, 4)
	require.EqualValues(t, 2, top[0].Count)
	require.Regexp(t, `^k{111}~[0-9a-f]{16}$`, top[0].Key)
	require.True(t, keys["short"] && keys[long[:MaxDeniedKey]])
}

func TestKeysAreCopied(t *testing.T) {
	d, buffer := NewDenied(1), []byte("ann")
	d.add("client", string(buffer))
	first := d.Top()
	d.add("client", "bobby") // takes over the counter, and its memory
	require.Equal(t, "ann", first[0].Key)
}

func TestEqualKeysOfTwoRulesAreDistinct(t *testing.T) {
	d := NewDenied(10)
	for _, pair := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}, {"c", "ab"}, {"x", "x"}, {"y", "y"}} {
		d.add(pair[0], pair[1])
	}
	require.Len(t, d.Top(), 7)
}

func TestResetForgetsAllDenials(t *testing.T) {
	now := still()
	d := NewDenied(10)
	d.clock = func() time.Time { return now }
	d.add("client", "ann")
	now = now.Add(time.Hour)
	d.Reset()
	require.Equal(t, []DeniedKey{}, d.Top())
	require.Equal(t, now, d.report().Since)
	require.Zero(t, d.report().Denials)
	d.add("client", "bob")
	require.Equal(t, []DeniedKey{{Rule: "client", Key: "bob", Count: 1}}, d.Top())
}

func TestDeniedIsSafeForConcurrentUse(t *testing.T) {
	const goroutines, each = 8, 2000
	d := NewDenied(100)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for j := range each {
				key := fmt.Sprint(random.IntN(10_000))
				if j%2 == 0 {
					key = fmt.Sprint("often ", j%10)
				}
				d.Observe(context.Background(), denialOf(denied("client", key)))
			}
		})
	}
	for range 50 {
		require.LessOrEqual(t, len(d.Top()), 100)
	}
	all.Wait()
	require.EqualValues(t, goroutines*each, d.report().Denials)
	for _, k := range d.Top()[:5] { // each is a tenth of all
		require.Contains(t, k.Key, "often")
		require.GreaterOrEqual(t, k.Count, uint64(goroutines*each/10))
	}
	all.Go(d.Reset)
	all.Go(func() { d.add("client", "late") })
	all.Wait()
	require.LessOrEqual(t, d.report().Denials, uint64(1))
}

// These tests promise the text and the JSON of the list, and that both are safe to show.

func listOf(keys ...string) *Denied {
	d := NewDenied(10)
	d.clock = still
	d.Reset()
	for i, key := range keys {
		for range len(keys) - i {
			d.add("client", key)
		}
	}
	d.clock = func() time.Time { return still().Add(90 * time.Second) }
	return d
}

func get(d *Denied, accept ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/debug/denied", nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/html") // of a middleware
	d.ServeHTTP(w, r)
	return w
}

func TestListAsText(t *testing.T) {
	w := get(listOf("203.0.113.7", "a\x1b[2J\u202e\n\x9b<b>"))
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "Accept", w.Header().Get("Vary"))
	require.Equal(t, `3 denials since 2026-01-01T12:00:00Z (1m30s).
Each count is too high by at most its error bound. A key that is not listed was denied at most 0 times.

       count  error bound  rule and key
           2            0  "client" "203.0.113.7"
           1            0  "client" "a\x1b[2J\u202e\n\x9b<b>"
`, w.Body.String())
}

func TestListAsJSON(t *testing.T) {
	w := get(listOf("203.0.113.7", "a\x1b\x7f<b>é\u009b😀", "\xff"), "application/json")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, `{"since":"2026-01-01T12:00:00Z","denials":6,"missing_at_most":0,"keys":[`+
		`{"rule":"client","key":"203.0.113.7","count":3,"error_bound":0},`+
		`{"rule":"client","key":"a\u001b\u007f\u003cb\u003e\u00e9\u009b\ud83d\ude00","count":2,"error_bound":0},`+
		`{"rule":"client","key":"\ufffd","count":1,"error_bound":0,"bytes":"/w=="}]}`+"\n", w.Body.String())
}

func TestListAnswersOnlyGetAndHead(t *testing.T) {
	for method, code := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		listOf("ann").ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, code, w.Code, method)
		if code == 405 {
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
	}
}

func TestAcceptSelectsJSON(t *testing.T) {
	tracetest.Answers(t, "testdata/accept.txt", func(accept string) string {
		return get(listOf("ann"), strings.Split(accept, " | ")...).Header().Get("Content-Type")
	})
}

// Attackers choose keys. Whatever the bytes are, a terminal can print the list, a browser
// does not run it, and a program gets the exact keys.
func FuzzKeysAreHarmless(f *testing.F) {
	f.Add("\x1b]0;title\x07", "\u202e\u2028\u009b")
	f.Add("<script>", "\xff\xfe😀\x7f")
	f.Fuzz(func(t *testing.T, rule, key string) {
		if len(key) > MaxDeniedKey || !utf8.ValidString(rule) {
			return
		}
		d := NewDenied(1)
		d.add(rule, key)
		text, document := get(d).Body.String(), get(d, "application/json").Body.String()
		require.NotContains(t, document, "<")
		for _, c := range text + document {
			require.True(t, c == '\n' || c >= ' ' && c < 0x7f, "%q", c)
		}
		require.Equal(t, 5, strings.Count(text, "\n"))
		var got struct {
			Keys []struct {
				Rule, Key string
				Bytes     []byte
			}
		}
		require.NoError(t, json.Unmarshal([]byte(document), &got))
		require.Equal(t, rule, got.Keys[0].Rule)
		if got.Keys[0].Bytes != nil {
			got.Keys[0].Key = string(got.Keys[0].Bytes)
		}
		require.Equal(t, key, got.Keys[0].Key)
	})
}
