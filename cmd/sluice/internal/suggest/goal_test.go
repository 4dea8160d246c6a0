package suggest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// TestDenialsAllowedAreExact: floating-point numbers would give 0 or 1 less in some of these cases.
func TestDenialsAllowedAreExact(t *testing.T) {
	for _, c := range []struct {
		share string
		total int64
		want  int64
	}{
		{"100%", 1 << 40, 0},
		{"99.9%", 1000, 1},
		{"99.9%", 999, 0},
		{"99.9%", 5328, 5},
		{"70%", 10, 3},
		{"71%", 100, 29},
		{"0.000000000001%", 1, 0},
		{"099.90%", 1000, 1},
		{"99.999999999999%", 100_000_000_000_000, 1},
		{"50%", 0, 0},
	} {
		s, err := suggest.ParseShare(c.share)
		require.NoError(t, err)
		require.Equal(t, c.want, s.Rest(c.total), "%s of %d", c.share, c.total)
		require.Equal(t, c.share, s.String())
	}
}

func TestInvalidSharesAreExplained(t *testing.T) {
	for share, want := range map[string]string{
		"0%":                      `"0%": want a percentage above 0% and at most 100%, such as 99.9%`,
		"0.000%":                  "above 0%",
		"101%":                    "at most 100%",
		"100.000000000001%":       "at most 100%",
		"abc":                     `"abc": want a percentage`,
		"":                        `"": want a percentage`,
		"99.9":                    "did you mean 99.9%?",
		"0":                       "above 0%",
		"150":                     "at most 100%",
		"-1%":                     "above 0%",
		"1/2%":                    "percentage",
		"1e1%":                    "percentage",
		"99,9%":                   "percentage",
		"99.9 %":                  "percentage",
		"99.9999999999999999999%": "percentage",
		"99.9%\n":                 "percentage",
		"1000000000000000%":       "percentage",
		"\u0669\u0669%":           "percentage",
		"99.9%99.9%99.9%\x1b":     "percentage",
	} {
		_, err := suggest.ParseShare(share)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\x1b")
		if want != "did you mean 99.9%?" {
			require.NotContains(t, err.Error(), "did you mean", "%s", share)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, u := range []suggest.Unit{suggest.OfRequests, suggest.OfClients} {
		parsed, err := suggest.ParseUnit(string(u))
		require.NoError(t, err)
		require.Equal(t, u, parsed)
	}
	_, err := suggest.ParseUnit("client")
	require.ErrorContains(t, err, `"client" is not known; want requests or clients`)
}
