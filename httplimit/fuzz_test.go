package httplimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

// Whatever a client sends before what the proxy adds, it is found.
func FuzzSpoofing(f *testing.F) {
	for _, forgery := range []string{"", "198.51.100.7", "10.0.0.9, ", `for="`, `for="x\`, `";for=198.51.100.7`, "\x00", ",\",", `\\"`} {
		f.Add(forgery, forgery)
	}
	f.Fuzz(func(t *testing.T, line, start string) {
		plain, forwarded := behind(t, httplimit.ClientIP{}), behind(t, httplimit.ClientIP{Forwarded: true})
		require.Equal(t, "203.0.113.6", plain(from("10.0.0.1:80", xff, line, start+",203.0.113.6, 10.0.0.2")))
		require.Equal(t, "203.0.113.6", forwarded(from("10.0.0.1:80", "Forwarded", line, start+`,for=203.0.113.6;host="a,\"b",for="[fd00::1]:80"`)))
	})
}

// What the strict parser of these tests reads, the package's reads likewise.
func FuzzReadItems(f *testing.F) {
	for _, field := range []string{`"a";r=0;t=3, "b";q=1`, `"a\"\\";x;y=?0;pk=:AQI=:`, `"a";r=-1,"b"`, `"a";r=1000000000000000`, `a;r=1`, `"a",`, `"a" ;r=1`, `"a";r=1.5`} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		want, _, err := parseItems([]string{field})
		names, integers, ok := httplimit.ReadItems([]string{field})
		if err != nil {
			return // it may be of a type that only the package knows
		}
		require.True(t, ok)
		require.Len(t, names, len(want))
		for i, item := range want {
			require.Equal(t, item.name, names[i])
			for key, value := range item.params {
				if n, isInteger := value.(int64); isInteger {
					require.Equal(t, n, integers[i][key])
				} else {
					require.NotContains(t, integers[i], key)
				}
			}
		}
	})
}

// Where a field is malformed, nothing of it is believed.
func TestMalformedFieldsAreRefused(t *testing.T) {
	for _, bad := range []string{
		`"a`, `"a",`, `"a" "b"`, `"a";`, `"a";Q=1`, `"a";q=`, `"a";q=1000000000000000`, `"a";q=+1`, `"a";q=1.`, `"a";q=1.2345`, `"a";q=1234567890123.1`,
		`"é"`, "\"\x00\"", `"\a"`, `"a";pk=:AQI`, `"a" ;q=1`, `"a";q=1,,"b"`, `"a";q =1`, `"a";f=?2`, `"a";f=?`, `,"a"`, `("a" "b"`, `("a""b")`, `("a"`, `(`, `("a",)`, `("a";)`, `"a";d=@1.5`, `"a";pk=:A Q=:`, `"a";pk=:A-Q=:`, `"a";d=%x`, `"a";d=%`, `"a";-=1`, `-`,
	} {
		_, _, ok := httplimit.ReadItems([]string{bad})
		require.False(t, ok, bad)
	}
	names, integers, ok := httplimit.ReadItems([]string{`tok/en:;q=1, 5, "a";d=1.5;e=@1659578233;f=%"f%c3%bc";g=*t;h=:AQI=:;r=7`, ` "b";*x=-3, ("c" d;e=1  5);r=1, ( );r, ()`})
	require.True(t, ok)
	require.Equal(t, []string{"a", "b"}, names)
	require.Equal(t, []map[string]int64{{"r": 7}, {"*x": -3}}, integers)
}
