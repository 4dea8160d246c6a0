package algo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

func TestParseLimitAndStringAreInverses(t *testing.T) {
	for spec, want := range map[string]algo.Limit{
		"100/m":                 algo.Per(100, time.Minute),
		"10/s":                  algo.Per(10, time.Second),
		"5/250ms":               algo.Per(5, 250*time.Millisecond),
		"1000/d":                algo.Per(1000, 24*time.Hour),
		"1/ns":                  algo.Per(1, 1),
		"7/us":                  algo.Per(7, time.Microsecond),
		"3/ms":                  algo.Per(3, time.Millisecond),
		"2/h":                   algo.Per(2, time.Hour),
		"1/1m30s":               algo.Per(1, 90*time.Second),
		"1/36h":                 algo.Per(1, 36*time.Hour),
		"1/1h0m1s":              algo.Per(1, time.Hour+time.Second),
		"1/20m":                 algo.Per(1, 20*time.Minute),
		"1/1h10m":               algo.Per(1, 70*time.Minute),
		"4611686018427387904/s": algo.Per(algo.MaxCount, time.Second),
	} {
		got, err := algo.ParseLimit(spec)
		require.NoError(t, err, spec)
		require.Equal(t, want, got)
		require.Equal(t, spec, got.String())
		require.NoError(t, got.Validate())
	}
}

func TestStringWritesTheShortestUnit(t *testing.T) {
	for spec, want := range map[string]string{"10/60s": "10/m", "1000/24h": "1000/d", "5/7d": "5/168h", "1/0.5s": "1/500ms", "1/1µs": "1/us"} {
		got, err := algo.ParseLimit(spec)
		require.NoError(t, err, spec)
		require.Equal(t, want, got.String())
	}
}

func TestUnitsHaveLongNames(t *testing.T) {
	for short, long := range map[string][]string{
		"s": {"sec", "second", "seconds"}, "m": {"min", "minute", "minutes"}, "h": {"hour", "hours"}, "d": {"day", "days"},
	} {
		for _, name := range long {
			got, err := algo.ParseLimit("100/" + name)
			require.NoError(t, err)
			require.Equal(t, "100/"+short, got.String())
			got, err = algo.ParseLimit("100/15" + name)
			require.NoError(t, err)
			want, err := algo.ParseLimit("100/15" + short)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestParseLimitErrorNamesTheFault(t *testing.T) {
	for spec, fault := range map[string]string{
		"":                      "COUNT/PERIOD",
		"10":                    "COUNT/PERIOD",
		"0/s":                   "at least 1",
		"-1/s":                  "at least 1",
		"1.5/s":                 "whole number",
		"ten/s":                 "whole number",
		"/s":                    "whole number",
		"10/":                   "the period",
		"10/0s":                 "at least 1ns",
		"10/-1s":                "at least 1ns",
		"10/fortnight":          "the period",
		"10/9999999999d":        "at most 2562047h or 106751d",
		"10/106752d":            "at most 2562047h or 106751d",
		"10/2562048h":           "at most 2562047h or 106751d",
		"10/99999999999999999h": "at most 2562047h or 106751d",
		"10/-9999999999d":       "at least 1ns",
		"10/-1d":                "at least 1ns",
		"10/0d":                 "at least 1ns",
		"10/-":                  "neither a unit",
		"10/1h5":                "neither a unit",
		"10/1.5d":               "neither a unit",
		"10/s/m":                "the period",
		"1/1w":                  "nor a duration such as 250ms or 24h; a week is 7d",
		"1/2weeks":              "; a week is 7d",
		"10/Min":                "neither a unit",
		"10/1h5min":             "neither a unit",
		"10/-5min":              "\"-5min\" is neither a unit",
		"10/0min":               "\"0min\" must be at least 1ns",
		"10/9999999999days":     "at most 2562047h or 106751d",
		"4611686018427387905/s": "2^62",
		"9223372036854775808/s": "2^62",
	} {
		_, err := algo.ParseLimit(spec)
		require.ErrorContains(t, err, fault, spec)
		require.ErrorContains(t, err, fmt.Sprintf("%q", spec))
	}
}

func TestValidateRefusesOutOfRange(t *testing.T) {
	for _, l := range []algo.Limit{{}, {Count: 1}, {Period: 1}, {Count: -1, Period: 1}, {Count: 1, Period: -1}, {Count: algo.MaxCount + 1, Period: 1}} {
		require.Error(t, l.Validate(), l)
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		l, err := algo.ParseLimit(s)
		if err != nil {
			return
		}
		require.NoError(t, l.Validate())
		again, err := algo.ParseLimit(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func ExampleParseLimit() {
	l, err := algo.ParseLimit("100/min")
	fmt.Println(l, err)
	fmt.Println(l.Count, l.Period)
	_, err = algo.ParseLimit("100/moon")
	fmt.Println(err)
	// Output:
	// 100/m <nil>
	// 100 1m0s
	// algo: limit "100/moon": the period "moon" is neither a unit (ns, us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h
}

func ExampleLimit_Validate() {
	fmt.Println(algo.Per(100, time.Minute).Validate())
	fmt.Println(algo.Per(0, time.Minute).Validate())
	// Output:
	// <nil>
	// algo: Limit.Count must be at least 1, got 0
}

func ExamplePer() {
	fmt.Println(algo.Per(5, 250*time.Millisecond))
	// Output: 5/250ms
}
