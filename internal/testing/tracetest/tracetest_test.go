// The tests promise that Run compares the decisions of a trace, and that -update rewrites nothing else.
package tracetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraces(t *testing.T) { Run(t, "../../trace/testdata/*.trace") }

func TestUpdateRewritesOnlyTheAnswers(t *testing.T) {
	const before = "" +
		"# why #  \n" +
		" policy\tgcra   10/s burst=3#\n" +
		"#at key cost and so on\n" +
		"@0s   a 1->   x -> deny 0 0 0\n"
	file := filepath.Join(t.TempDir(), "x.trace")
	write := func(s string) { require.NoError(t, os.WriteFile(file, []byte(s), 0o644)) }

	write(before)
	_, err := golden(file, true)
	require.ErrorContains(t, err, `x.trace:2: policy`)
	text := strings.NewReplacer("3#", "3 #", "1->   x", "1").Replace(before)
	write(text)
	differences, err := golden(file, false)
	require.NoError(t, err)
	require.Len(t, differences, 1)

	differences, err = golden(file, true)
	require.NoError(t, err)
	require.Empty(t, differences)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, ""+
		"# why #  \n"+
		" policy\tgcra   10/s burst=3 #\n"+
		"#at key cost    verdict left retry reset\n"+
		"@0s   a 1    -> ok      2    0s    100ms\n", string(got))

	differences, err = golden(file, false)
	require.NoError(t, err)
	require.Empty(t, differences)
}
