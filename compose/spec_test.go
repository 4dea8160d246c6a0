package compose_test

// These tests promise that ParsePolicy and String are inverse, and that an error shows the
// word at fault and what would be valid. suggestion_test.go applies the suggestions.

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

func TestCostIsTheLastWord(t *testing.T) {
	for spec, want := range map[string]int64{
		"gcra 100/m":                               1,
		"gcra 100/m cost=1":                        1,
		"gcra 5/250ms burst=20 cost=3 ":            3,
		"all(gcra 10/s; gcra 100/m)":               1,
		"all(gcra 10/s; gcra 100/m)cost=5":         5,
		"fixedwindow 5/h cost=9223372036854775807": math.MaxInt64,
	} {
		p, cost, err := compose.ParsePolicyWithCost(spec)
		require.NoError(t, err)
		require.Equal(t, want, cost)
		require.NotContains(t, p.String(), "cost")
	}
}

func TestStringIsTheShortestSpec(t *testing.T) {
	for _, spec := range []string{
		"gcra 100/m burst=20",
		"tokenbucket 10/s burst=50 refill=interval",
		"fixedwindow 1000/d align=clock offset=-1h30m",
		"movingwindow 100/m slots=12 trailing=whole",
		"all(gcra 10/s; tokenbucket 100/m burst=20; fixedwindow 5000/d align=clock)",
		"fixedwindow 1099511627776/625499h50m",
	} {
		require.Equal(t, spec, mustPolicy(spec).String())
	}
	for _, spec := range [][2]string{
		{" gcra\t60/1m   burst=60 ", "gcra 60/m"},
		{"gcra 100/min burst=20", "gcra 100/m burst=20"},
		{"fixedwindow 5/hour", "fixedwindow 5/h"},
		{"tokenbucket 10/1s refill=continuous burst=10", "tokenbucket 10/s"},
		{"fixedwindow 10/s offset=0s align=first", "fixedwindow 10/s"},
		{"movingwindow 10/s trailing=weighted slots=1", "movingwindow 10/s"},
		{"gcra " + strings.Repeat("0", 100) + "10/1." + strings.Repeat("0", 100) + "s", "gcra 10/s"},
		{"all ( gcra 1/s;all(gcra 2/s ;gcra 3/s) ; gcra 4/s )", "all(gcra 1/s; gcra 2/s; gcra 3/s; gcra 4/s)"},
	} {
		p := mustPolicy(spec[0])
		require.Equal(t, spec[1], p.String())
		require.Equal(t, effectOf(t, mustPolicy(spec[1])), effectOf(t, p))
	}
}

// The word at fault is between the guillemets.
func TestErrorShowsTheWordAtFault(t *testing.T) {
	for marked, want := range map[string]string{
		"«»":                                   "the spec ends where there should be a policy, an algorithm and its limit such as gcra 100/m; known are gcra, tokenbucket, fixedwindow, movingwindow and all(SPEC; SPEC ...)",
		"«10/s»":                               `found "10/s" where there should be an algorithm; the limit follows it, for instance gcra 10/s; known are gcra`,
		"«-1/s»":                               `found "-1/s" where there should be an algorithm; the limit follows it, for instance gcra 100/m; known are gcra`,
		"«10»":                                 `the limit follows it, for instance gcra 100/m`,
		"«5» per second":                       `the limit follows it, for instance gcra 100/m`,
		"all(«10/s»; gcra 100/m)":              `the limit follows it, for instance gcra 10/s`,
		"«gcar» 10/s":                          `unknown algorithm "gcar"; known are gcra, tokenbucket, fixedwindow, movingwindow and all(SPEC; SPEC ...); did you mean gcra?`,
		"«Gcra» 10/s":                          `did you mean gcra? All words are in lower case`,
		"«All»(gcra 10/s)":                     `unknown algorithm "All"; known are gcra, tokenbucket, fixedwindow, movingwindow and all(SPEC; SPEC ...); did you mean all? All words are in lower case`,
		"gcra 10/s «Burst=20»":                 `did you mean burst=? All words are in lower case`,
		"gcra«»":                               "the spec ends where there should be the limit of gcra, COUNT/PERIOD, for instance gcra 100/m",
		"gcra «burst=20» 100/m":                `found "burst=20" where there should be the limit of gcra`,
		"gcra «100»":                           `limit "100": want COUNT/PERIOD, for instance 100/m or 5/250ms`,
		"gcra «0/s»":                           `limit "0/s": the count must be at least 1`,
		"gcra «10/fortnight»":                  `the period "fortnight" is neither a unit (us, ms, s or sec, m or min, h or hour, d or day) nor a duration`,
		"gcra 100/m «20»":                      `"20" is not an option=value, written without spaces; gcra takes burst=, cost=`,
		"gcra 100/m «brust=20»":                `unknown option "brust"; gcra takes burst=, cost=; did you mean burst=?`,
		"gcra 100/m «slots=12»":                `slots= is an option of movingwindow; gcra takes burst=, cost=`,
		"fixedwindow 5/h «burst=2»":            `burst= is an option of gcra and tokenbucket; fixedwindow takes align=, offset= (with align=clock), cost=`,
		"gcra 100/m burst=20 «burst=20»":       `burst= is given twice, first as "burst=20"`,
		"gcra 100/m «burst=0»":                 `burst= takes a whole number of units from 1 to 2^40, not "0"`,
		"gcra 100/m «cost=0»":                  `cost= takes a whole number of units from 1, not "0"`,
		"gcra 100/m «cost=2» burst=20":         `cost= must be the last word of the spec; write it at the end`,
		"all(gcra 1/s) «cost=2» cost=2":        `cost= must be the last word of the spec; write it at the end`,
		"all(gcra 1/s «cost=2»; gcra 1/m)":     `cost= is for the whole all( ), not for a part; write it at the end, after the last ")"`,
		"all(gcra 1/s; gcra 1/m «brust=2»)":    `unknown option "brust"; gcra takes burst=; did you mean burst=?`,
		"gcra «cost=2»":                        `found "cost=2" where there should be the limit of gcra`,
		"«cost=2»":                             `unknown algorithm "cost=2"`,
		"gcra 100/m «burst=1099511627777»":     `burst= takes a whole number of units from 1 to 2^40, not "1099511627777"`,
		"gcra 1/100000h «burst=1099511627776»": `a burst of 1099511627776 at 1/100000h takes 71 years or longer to refill; use a burst of at most 6, or a faster limit`,
		"tokenbucket 1/600000h «burst=2» refill=interval":        `a burst of 2 at 1/25000d takes 71 years or longer to refill; use a burst of at most 1, or a faster limit`,
		"tokenbucket 10/s «refill=sometimes»":                    `refill= takes continuous or interval, not "sometimes"`,
		"fixedwindow 5/m «offset=1m»":                            `offset= needs align=clock; without it each window begins with a request, and an offset has no meaning`,
		"fixedwindow 5/h align=clock «offset=15»":                `offset= takes a duration such as 15m or -1h30m, not "15"`,
		"movingwindow 10/s «slots=1025»":                         `slots= takes a whole number of slots from 1 to 1024, not "1025"`,
		"all(gcra «10/s,» gcra 100/m)":                           `separate words by spaces, and the policies of all( ) by ";", without ","`,
		"«all»(" + strings.Repeat("gcra 1/s;", 64) + "gcra 1/s)": `all(SPEC; SPEC ...) takes at most 64 policies`,
		"all«»":            `the spec ends where there should be "(" and the policies of all(SPEC; SPEC ...)`,
		"all(«)»":          `found ")" where there should be a policy`,
		"all(gcra 10/s«»":  `the spec ends where there should be ";" and another policy, or ")"`,
		"gcra 10/s«)»":     `unexpected ")" after the end of the policy`,
		"gcra 10/s «\x00»": `"\x00" is not an option=value`,
		// The limit with the words after it is one word of the error.
		"gcra «100/2 hours»":                       `limit "100/2 hours": the period "2 hours" is neither`,
		"gcra «100/2 weeks» burst=3":               "a week is 7d, so write 14d",
		"gcra «100 / m»":                           "write COUNT/PERIOD without spaces",
		"all(gcra «100/ m»; gcra 1/s)":             "write m",
		"gcra «100 per minute» burst=2":            "want COUNT/PERIOD, for instance 100/m",
		"all(gcra «10/x» gcra 100/m)":              `the period "x" is neither`,
		"gcra «100/9» burst=1":                     "the unit is missing: write it after the number, such as 9s",
		"gcra «100/1» burst":                       "the unit is missing",
		"gcra 100/m «per» key":                     `"per" is not an option=value`,
		"gcra «100/2» " + strings.Repeat("x", 200): "the unit is missing",
	} {
		before, rest, _ := strings.Cut(marked, "«")
		word, after, _ := strings.Cut(rest, "»")
		_, _, err := compose.ParsePolicyWithCost(before + word + after)
		var e *compose.SpecError
		require.ErrorAs(t, err, &e)
		require.Contains(t, err.Error(), want)
		require.Equal(t, marked, e.Spec[:e.Offset]+"«"+e.Word+"»"+e.Spec[e.Offset+len(e.Word):])
	}
}

func TestErrorOfAHostileSpecIsShort(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, spec := range []string{
		strings.Repeat("all(", 1<<20),
		strings.Repeat("all(", 1<<12),
		"all(" + strings.Repeat("gcra 1/s;", 64) + "gcra 1/s)",
		long, "gcra " + long, "gcra 1/" + long, "gcra " + strings.Repeat("9", 5000) + "/s", "gcra 1/s " + long, "gcra 1/s burst=" + long, "gcra 1/s " + long + "=1", "gcra 1/s)" + long,
	} {
		_, _, err := compose.ParsePolicyWithCost(spec)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 600)
	}
}

func FuzzParsePolicyWithCost(f *testing.F) {
	f.Fuzz(func(t *testing.T, spec string) {
		p, cost, err := compose.ParsePolicyWithCost(spec)
		if err != nil {
			var e *compose.SpecError
			require.ErrorAs(t, err, &e)
			require.True(t, strings.HasPrefix(e.Spec[e.Offset:], e.Word))
			require.NotContains(t, err.Error(), "\n")
			_ = e.Caret()
			if e.Err != nil { // each has a message in terms of specs
				require.Regexp(t, "limit|longer than 2.62 ns|Offset is for AlignClock|All takes at most", e.Err.Error())
			}
			return
		}
		require.Positive(t, cost)
		again, err := compose.ParsePolicy(p.String())
		require.NoError(t, err)
		require.Equal(t, p.String(), again.String())
		require.Equal(t, effectOf(t, p), effectOf(t, again))
	})
}

// effectOf returns what the options of a policy determine: its program, its bounds, and its result
// for a new key.
func effectOf(t *testing.T, p algo.Policy) []any {
	program, ok := p.(algo.Portable).Program()
	r, err := p.Peek(nil, time.Unix(1e9, 7), 1)
	require.NoError(t, err)
	return []any{program, ok, r, p.Limit(), p.Bound(time.Second), p.Bound(time.Hour)}
}
