// These tests promise that our parser reads what httpsfv reads, and that httplimit writes canonical fields.
package httpsfvtest

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/internal/structured"
)

// readWithHTTPSFV reads a List of Strings with httpsfv. It returns false if the field is
// malformed or an Item is not a String.
func readWithHTTPSFV(lines []string) (list httpsfv.List, items []structured.Item, ok bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, nil, false
	}
	for _, member := range list {
		found, _ := member.(httpsfv.Item)
		name, ok := found.Value.(string)
		if !ok {
			return nil, nil, false
		}
		item := structured.Item{Name: name, Params: make(map[string]any)}
		for _, key := range found.Params.Names() {
			value, _ := found.Params.Get(key)
			switch value.(type) {
			case int64, string:
			default:
				value = true
			}
			item.Params[key] = value
		}
		items = append(items, item)
	}
	return list, items, true
}

// ReadItems returns the same Items as httpsfv for every List of Strings.
func FuzzReadItems(f *testing.F) {
	for _, field := range []string{`"a";r=0;t=3, "b";q=1`, `"a\"\\";x;y=?0;pk=:AQI=:`, `"a";r=-1,"b"`, `"a";r=1000000000000000`, `a;r=1`, `"a",`, `"a" ;r=1`, `"a";r=1.5`} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		_, want, ok := readWithHTTPSFV([]string{field})
		if !ok {
			return // malformed, or with an Item that is no String
		}
		items, ok := structured.ReadItems([]string{field})
		require.True(t, ok)
		require.Equal(t, want, items)
	})
}

// httplimit writes the same text as httpsfv: for all algorithms and costs, for rules in debt,
// and for names that a String must escape.
func TestWrittenFieldsAreCanonical(t *testing.T) {
	names := []string{"client", `a "b" \c`, `\`, `"`, "café", "a\nb\x7f\x00", "a, b;q=1", " ", "\xff", strings.Repeat("n", 300)}
	for i, spec := range []string{
		"gcra 1/s", "gcra 7/11s burst=3", "gcra 1/600000h", "gcra 1099511627776/1us burst=1099511627776",
		"tokenbucket 10/s burst=50 refill=interval", "tokenbucket 1099511627776/625499h refill=interval",
		"fixedwindow 5/h align=clock offset=15m", "fixedwindow 1/625499h", "fixedwindow 1099511627776/1us",
		"movingwindow 6/m slots=12 trailing=whole", "movingwindow 1000000000000/d trailing=whole",
		"all(gcra 10/s; gcra 100/m)", "all(fixedwindow 3/d; gcra 2/m; movingwindow 5/h slots=4)",
	} {
		policy, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		for _, cost := range []int64{1, 3, 1000, 999_999_999_999_999, 1 << 62, math.MaxInt64} {
			now := time.Unix(1_700_000_000, 0)
			limiter, err := sluice.Options[*http.Request]{Clock: func() time.Time { return now }}.New(nil, sluice.Rule[*http.Request]{
				Name: names[(i+int(cost%7))%len(names)], Policy: policy,
				Cost: func(r *http.Request) int64 { n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64); return n },
			})
			require.NoError(t, err)
			h := httplimit.Handler(limiter, http.NotFoundHandler(), httplimit.Options{PartitionSecret: []byte("secret")})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Cost", strconv.FormatInt(cost, 10))
			for round := range 4 {
				if round == 2 {
					_, err := limiter.Charge(t.Context(), r, 1)
					require.NoError(t, err)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				for _, field := range []string{"RateLimit-Policy", "RateLimit"} {
					requireCanonical(t, w.Result().Header.Values(field))
				}
				now = now.Add(333 * time.Millisecond)
			}
		}
	}
}

func requireCanonical(t *testing.T, lines []string) {
	t.Helper()
	list, want, ok := readWithHTTPSFV(lines)
	require.True(t, ok, "%q", lines)
	require.NotEmpty(t, want)
	canonical, err := httpsfv.Marshal(list)
	require.NoError(t, err)
	require.Equal(t, canonical, strings.Join(lines, ", "))
	items, ok := structured.ReadItems(lines)
	require.True(t, ok)
	require.Equal(t, want, items)
}
