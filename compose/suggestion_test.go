package compose_test

// These tests promise that a spec is valid after the user follows the suggestion of its error, and that the values that an error
// names are valid.

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

// optionValues has a valid value of each option.
var optionValues = map[string]string{
	"burst": "2", "refill": "interval", "align": "clock", "offset": "15m align=clock", "slots": "2", "trailing": "whole", "ttl": "30s", "tz": "UTC",
}

// shortest has the shortest spec of each algorithm.
var shortest = map[string]string{
	"gcra": "1/s", "tokenbucket": "1/s", "fixedwindow": "1/s", "movingwindow": "1/s", "inflight": "1 ttl=30s", "calendar": "1/day",
}

// misspelled returns a name in upper case, and with each of its letters missing.
func misspelled(name string) []string {
	names := []string{strings.ToUpper(name)}
	for i := range name {
		names = append(names, name[:i]+name[i+1:])
	}
	return names
}

var suggestion = regexp.MustCompile(`did you mean (\w+)(=?)[^?]*\?`)

// requireSuggestion requires that the error for a spec suggests a word, and returns the spec with it.
func requireSuggestion(t *testing.T, spec string) (corrected, word string) {
	t.Helper()
	_, err := compose.ParsePolicy(spec)
	var e *compose.SpecError
	require.ErrorAs(t, err, &e, spec)
	found := suggestion.FindStringSubmatch(e.Problem)
	require.NotNil(t, found, "%s: %s", spec, e.Problem)
	text := found[1]
	if found[2] != "" {
		text += "=" + optionValues[found[1]]
	}
	return e.Spec[:e.Offset] + text + e.Spec[e.Offset+len(e.Word):], found[1]
}

func TestMisspelledNamesGetAValidSuggestion(t *testing.T) {
	for name, rest := range shortest {
		specs := make(map[string]string)
		for _, wrong := range misspelled(name) {
			specs[wrong+" "+rest] = name
		}
		for _, option := range []string{"burst", "refill", "align", "offset", "slots", "trailing", "ttl", "tz"} {
			_, err := compose.ParsePolicy(name + " " + rest + " " + option + "=" + optionValues[option])
			if err != nil || len(option) < 4 {
				continue
			}
			for _, wrong := range misspelled(option) {
				specs[name+" "+rest+" "+wrong+"=1"] = option
			}
		}
		for spec, want := range specs {
			corrected, word := requireSuggestion(t, spec)
			require.Equal(t, want, word, spec)
			_, err := compose.ParsePolicy(corrected)
			require.NoError(t, err, spec)
		}
	}
}

// otherNames are names that people use for the algorithms.
var otherNames = map[string][]string{
	"tokenbucket": {"token-bucket", "token_bucket", "token bucket", "tokenBucket", "bucket"},
	"fixedwindow": {"fixed-window", "fixed_window", "fixed window", "FixedWindow", "fixed", "window"},
	"movingwindow": {
		"moving-window", "moving_window", "moving window", "slidingwindow", "sliding-window", "sliding_window", "sliding window", "SlidingWindow",
		"sliding", "sliding window log", "sliding-window-counter", "rolling", "rolling window", "rollingwindow",
	},
	"gcra": {"leakybucket", "leaky-bucket", "leaky_bucket", "leaky bucket", "LeakyBucket", "leaky", "generic cell rate algorithm", "Gcra", "GCRA"},
}

func TestOtherNamesGetASuggestion(t *testing.T) {
	for want, names := range otherNames {
		for _, name := range names {
			for _, spec := range []string{name + " 1/s", name + "(1/s)", "all(gcra 1/s; " + name + " 1/s)"} {
				_, word := requireSuggestion(t, spec)
				require.Equal(t, want, word, spec)
			}
			for _, separator := range []string{":", "=", ","} {
				_, err := compose.ParsePolicy(name + separator + "1/s")
				require.ErrorContains(t, err, "did you mean "+want)
			}
		}
	}
}
