// These tests promise that ReadItems refuses every malformed field, and returns the Strings
// of the others. The package httpsfvtest compares it with another library.
package structured_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit/internal/structured"
)

func TestReadItemsRefusesMalformedFields(t *testing.T) {
	for _, bad := range []string{
		`"a`, `"a",`, `"a" "b"`, `"a";`, `"a";Q=1`, `"a";q=`, `"a";q=1000000000000000`, `"a";q=+1`, `"a";q=1.`, `"a";q=1.2345`, `"a";q=1234567890123.1`,
		`"é"`, "\"\x00\"", `"\a"`, `"a";pk=:AQI`, `"a" ;q=1`, `"a";q=1,,"b"`, `"a";q =1`, `"a";f=?2`, `"a";f=?`, `,"a"`, `("a" "b"`, `("a""b")`, `("a"`, `(`, `("a",)`, `("a";)`, `"a";d=@1.5`, `"a";pk=:A Q=:`, `"a";pk=:A-Q=:`, `"a";d=%x`, `"a";d=%`, `"a";-=1`, `-`,
	} {
		_, ok := structured.ReadItems([]string{bad})
		require.False(t, ok, bad)
	}
	items, ok := structured.ReadItems([]string{`tok/en:;q=1, 5, "a";d=1.5;e=@1659578233;f=%"f%c3%bc";g=*t;h=:AQI=:;r=7`, ` "b";*x=-3, ("c" d;e=1  5);r=1, ( );r, ()`})
	require.True(t, ok)
	require.Equal(t, []structured.Item{
		{Name: "a", Params: map[string]any{"d": true, "e": true, "f": true, "g": true, "h": true, "r": int64(7)}},
		{Name: "b", Params: map[string]any{"*x": int64(-3)}},
	}, items)
}
