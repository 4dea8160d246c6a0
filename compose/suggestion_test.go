package compose_test

// This test promises that a spec is valid after the user follows the suggestion of its error.

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

var parsers = map[string]func(string) (algo.Policy, error){
	"ParsePolicy": compose.ParsePolicy,
	"ParsePolicyWithCost": func(spec string) (algo.Policy, error) {
		p, _, err := compose.ParsePolicyWithCost(spec)
		return p, err
	},
}

// The test replaces the word at fault with the suggestion, for all algorithms and options and
// for all their names with one letter missing.
func TestEverySuggestionIsAValidSpec(t *testing.T) {
	for name, parse := range parsers {
		t.Run(name, func(t *testing.T) {
			tried := 0
			for _, spec := range misspelledSpecs() {
				for _, corrected := range correctedSpecs(t, parse, spec) {
					_, err := parse(corrected)
					require.NoError(t, err, spec)
					tried++
				}
			}
			require.Greater(t, tried, 100)
		})
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
				_, err := compose.ParsePolicy(spec)
				var e *compose.SpecError
				require.ErrorAs(t, err, &e, spec)
				require.Contains(t, e.Problem, "did you mean "+want+"?", spec)
				require.Equal(t, name, e.Word)
			}
			for _, separator := range []string{":", "=", ","} {
				_, err := compose.ParsePolicy(name + separator + "1/s")
				require.ErrorContains(t, err, "did you mean "+want)
			}
		}
	}
}

// optionValues has a valid value of each option.
var optionValues = map[string]string{"burst": "2", "refill": "interval", "align": "clock", "offset": "15m", "slots": "2", "trailing": "whole", "cost": "1"}

// misspelledSpecs returns specs with one wrong word each.
func misspelledSpecs() (specs []string) {
	for _, algorithm := range []string{"gcra", "tokenbucket", "fixedwindow", "movingwindow"} {
		for i := range algorithm {
			specs = append(specs, algorithm[:i]+algorithm[i+1:]+" 1/s")
		}
		specs = append(specs, strings.ToUpper(algorithm)+" 1/s")
		for option := range optionValues {
			specs = append(specs, algorithm+" 1/s "+option, badValue(algorithm, option), algorithm+" 1/s "+strings.ToUpper(option)+"=1")
			for i := range option {
				specs = append(specs, algorithm+" 1/s "+option[:i]+option[i+1:]+"=1")
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Values(otherNames))...) {
		specs = append(specs, name+" 1/s", strings.ToUpper(name)+" 1/s", strings.ReplaceAll(name, " ", "")+":1/s")
	}
	for _, limit := range []string{"10/s", "0/s", "10", "1/2000000h", "1/w", "1/week", "1/2weeks", "1/month",
		"1/2", "1/9", "1/Day", "1/3mo", "1/yearly", "1/daily"} {
		specs = append(specs, limit, "gcra "+limit, "tokenbucket "+limit)
	}
	return append(specs, "gcra 1/2 hours", "gcra 1/2 weeks", "gcra 1 / m", "gcra 1/ m", "gcra 1 per second", "", "all", "gcra")
}

// badValue returns a spec whose only fault is the value of an option.
func badValue(algorithm, option string) string {
	if algorithm == "fixedwindow" && option == "offset" {
		return "fixedwindow 1/s align=clock offset=?"
	}
	return algorithm + " 1/s " + option + "=?"
}

var suggestions = [...]*regexp.Regexp{
	regexp.MustCompile(`did you mean ([^?]+)\?`),
	regexp.MustCompile(` takes (\w+=.*?)(?:;|$)`),
	regexp.MustCompile(`takes (\w+ or \w+), not`),
	regexp.MustCompile(`(?:for instance|such as) ([^;,]+)`),
	regexp.MustCompile(`known are (.*) and all`),
	regexp.MustCompile(`; an? \w+ is (\w+)$`),
	regexp.MustCompile(`write (\w+)$`),
}

// correctedSpecs parses a spec and applies the suggestions of the error.
func correctedSpecs(t *testing.T, parse func(string) (algo.Policy, error), spec string) (specs []string) {
	_, err := parse(spec)
	if err == nil {
		return nil
	}
	var e *compose.SpecError
	require.ErrorAs(t, err, &e)
	for _, suggestion := range suggestions {
		for _, m := range suggestion.FindAllStringSubmatch(e.Problem, -1) {
			for _, text := range regexp.MustCompile(`, | or `).Split(strings.TrimSuffix(m[1], " or all(SPEC; SPEC ...)"), -1) {
				specs = append(specs, apply(e, text))
			}
		}
	}
	return specs
}

// apply returns the spec with a suggestion in place of the word at fault.
func apply(e *compose.SpecError, text string) string {
	before, after := e.Spec[:e.Offset], e.Spec[e.Offset+len(e.Word):]
	name, _, isOption := strings.Cut(e.Word, "=")
	switch suggested, rest, hasName := strings.Cut(text, "="); {
	case hasName: // an option: give it a value
		return before + suggested + "=" + optionValues[suggested] + neededOption(rest) + after
	case isOption: // a value
		return before + name + "=" + text + after
	case strings.Contains(e.Problem, "; a ") || strings.Contains(e.Problem, "; an "): // a unit
		return before + "1/" + text + after
	case text == "all":
		return "all(gcra 1/s)"
	case strings.HasPrefix(text, "gcra "): // the whole policy
		return text
	case before == "" && !strings.Contains(text, "/"): // an algorithm
		if after == "" {
			after = " 1/s"
		}
		return text + after
	case strings.HasPrefix(e.Problem, "limit") && !strings.Contains(text, "/"): // a period
		return before + "1/" + text + after
	}
	return before + " " + text + after
}

// neededOption returns the other option that a suggestion asks for.
func neededOption(words string) string {
	if m := regexp.MustCompile(`\(with (\w+=\w+)\)`).FindStringSubmatch(words); m != nil {
		return " " + m[1]
	}
	return ""
}
