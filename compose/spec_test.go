package compose_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

func TestSpecsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, spec := range []string{
		"gcra 100/m",
		"gcra 100/m burst=20",
		"gcra 5/250ms burst=20 cost=3",
		"all(gcra 10/s)",
		"all(gcra 10/s; gcra 100/m burst=20)",
	} {
		p, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		require.Equal(t, spec, p.String())
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, spec := range []string{"gcra 100/m burst=20", "all(gcra 10/s; gcra 100/m)", "all(", "gcra", "", "gcra 10/s brust=\xff"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := compose.ParsePolicy(spec)
		if err != nil {
			var e *compose.SpecError
			require.ErrorAs(t, err, &e)
			require.True(t, strings.HasPrefix(e.Spec[e.Offset:], e.Word))
			require.NotContains(t, err.Error(), "\n")
			_ = e.Pointer()
			return
		}
		again, err := compose.ParsePolicy(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.Equal(t, p.String(), again.String())
	})
}
