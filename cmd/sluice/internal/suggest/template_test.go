package suggest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
	"github.com/sluice-go/sluice/compose"
)

func TestTemplatePutsTheNumberInPlaceOfTheMark(t *testing.T) {
	for spec, want := range map[string]string{
		"gcra ?/m":                          "gcra 42/m",
		"gcra\n?/60s  burst=42":             "gcra 42/m",
		"gcra 7/m burst=?":                  "gcra 7/m burst=42",
		"movingwindow ?/h slots=12 cost=3":  "movingwindow 42/h slots=12 cost=3",
		"all(gcra 5/s; fixedwindow ?/h)":    "all(gcra 5/s; fixedwindow 42/h)",
		"all(gcra 5/s burst=?;gcra 100/m)":  "all(gcra 5/s burst=42; gcra 100/m)",
		"tokenbucket ?/2m refill=interval ": "tokenbucket 42/2m refill=interval",
	} {
		template, err := suggest.ParseTemplate(spec)
		require.NoError(t, err, spec)
		require.Equal(t, strings.Join(strings.Fields(spec), " "), template.String())
		p, err := template.Policy(42)
		require.NoError(t, err, spec)
		require.Equal(t, want, p.String())
	}
}

// TestInvalidTemplatesAreExplained: each error shows the spec with its ? and the word at fault.
func TestInvalidTemplatesAreExplained(t *testing.T) {
	for spec, want := range map[string]struct{ word, problem string }{
		"gcra 100/m":                  {"gcra 100/m", "the policy has no ?; write one ? in place of the number to find"},
		"inflight 20 ttl=30s":         {"inflight", "inflight limits requests at the same time, and access logs do not show when a request ends"},
		"inflight ? ttl=30s":          {"inflight", "inflight limits requests at the same time, and access logs do not show when a request ends"},
		"inflight 2 ttl=?":            {"ttl=?", `"ttl=?": ? is not allowed here`},
		"gcra ?/m burst=?":            {"?", "the policy has a second ?"},
		"gcra ??/m":                   {"?", "the policy has a second ?"},
		"gcra 5/?":                    {"5/?", `"5/?": ? is not allowed here`},
		"gcra 1?/m":                   {"1?/m", `"1?/m": ? is not allowed here`},
		"? 5/m":                       {"?", `"?": ? is not allowed here`},
		"movingwindow 5/m slots=?":    {"slots=?", `"slots=?": ? is not allowed here`},
		"gcra 5/m cost=?":             {"cost=?", `"cost=?": ? is not allowed here`},
		"gcra ?/y":                    {"?/y", `"?/y"`},
		"grca ?/m":                    {"grca", "did you mean gcra"},
		"grca 5/m":                    {"grca", "did you mean gcra"},
		"fixedwindow 5/m burst=?":     {"burst=?", "burst= is an option of gcra and tokenbucket"},
		"fixedwindow ?/m burst=5":     {"burst=5", "burst= is an option of gcra and tokenbucket"},
		"all(gcra ?/s; gcra 100/y)":   {"100/y", `"100/y"`},
		"all(gcra ?/s; gcra 100/m":    {"", `")"`},
		"gcra ?/m é=5":                {"é=5", `unknown option "é"`},
		"fixedwindow ?/m offset=1m x": {"x", "is not an option=value"},
	} {
		_, err := suggest.ParseTemplate(spec)
		var bad *compose.SpecError
		require.True(t, errors.As(err, &bad), spec)
		require.Equal(t, spec, bad.Spec)
		require.Equal(t, want.word, bad.Word, spec)
		require.Equal(t, want.word, spec[bad.Offset:][:len(bad.Word)], spec)
		require.Contains(t, bad.Problem, want.problem, spec)
	}
}

func TestCountOfAPolicyIsReplaced(t *testing.T) {
	for spec, want := range map[string]string{
		"gcra 100/m burst=20":                     "gcra ?/m burst=20",
		"gcra 100/m":                              "gcra ?/m",
		"gcra 5/m burst=5":                        "gcra ?/m burst=5",
		"tokenbucket 5/m burst=5 refill=interval": "tokenbucket ?/m burst=5 refill=interval",
		"penalty(gcra 5/m burst=5; for=1h)":       "penalty(gcra ?/m burst=5; for=1h)",
		"penalty(tokenbucket 5/m; for=1h)":        "penalty(tokenbucket ?/m; for=1h)",
		"movingwindow 300/15m slots=12":           "movingwindow ?/15m slots=12",
		"fixedwindow 5/h align=clock":             "fixedwindow ?/h align=clock",
	} {
		require.Equal(t, want, suggest.CountOf(policy(t, spec).Policy).String())
	}
}
