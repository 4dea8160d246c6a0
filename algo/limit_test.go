package algo_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

func TestParseLimitAndStringAreInverses(t *testing.T) {
	for spec, want := range map[string]algo.Limit{
		"100/m":           algo.Per(100, time.Minute),
		"10/s":            algo.Per(10, time.Second),
		"5/250ms":         algo.Per(5, 250*time.Millisecond),
		"1000/d":          algo.Per(1000, 24*time.Hour),
		"7/us":            algo.Per(7, time.Microsecond),
		"3/ms":            algo.Per(3, time.Millisecond),
		"2/h":             algo.Per(2, time.Hour),
		"1/1m30s":         algo.Per(1, 90*time.Second),
		"1/36h":           algo.Per(1, 36*time.Hour),
		"1/7d":            algo.Per(1, 7*24*time.Hour),
		"1/26062d":        algo.Per(1, 26062*24*time.Hour),
		"1/1h0m1s":        algo.Per(1, time.Hour+time.Second),
		"1/20m":           algo.Per(1, 20*time.Minute),
		"1/1h10m":         algo.Per(1, 70*time.Minute),
		"1099511627776/s": algo.Per(algo.MaxCount, time.Second),
	} {
		got, err := algo.ParseLimit(spec)
		require.NoError(t, err, spec)
		require.Equal(t, want, got)
		require.Equal(t, spec, got.String())
		require.NoError(t, got.Validate())
	}
}

func TestStringWritesTheShortestUnit(t *testing.T) {
	for spec, want := range map[string]string{"10/60s": "10/m", "1000/24h": "1000/d", "5/168h": "5/7d", "5/48h": "5/2d", "5/60h": "5/60h", "1/0.5s": "1/500ms", "1/1µs": "1/us"} {
		got, err := algo.ParseLimit(spec)
		require.NoError(t, err, spec)
		require.Equal(t, want, got.String())
	}
}

func TestUnitsHaveLongNames(t *testing.T) {
	for short, long := range map[string][]string{
		"s": {"sec", "secs", "second", "seconds"}, "m": {"min", "mins", "minute", "minutes"}, "h": {"hour", "hours"}, "d": {"day", "days"},
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
		"10/0s":                 "at least 1us",
		"10/1ns":                "at least 1us",
		"10/1500ns":             "a whole number of microseconds; the nearest is 2µs",
		"10/-1s":                "at least 1us",
		"10/fortnight":          "the period",
		"10/9999999999d":        "at most 26062d",
		"10/26063d":             "at most 26062d",
		"10/625500h":            "at most 26062d",
		"10/99999999999999999h": "at most 26062d",
		"10/-9999999999d":       "at least 1us",
		"10/-1d":                "at least 1us",
		"10/0d":                 "at least 1us",
		"10/-":                  "neither a unit",
		"10/1h5":                "neither a unit",
		"10/1.5d":               "neither a unit",
		"10/s/m":                "the period",
		"1/1w":                  "nor a duration such as 250ms or 24h; a week is 7d",
		"1/2weeks":              "; a week is 7d",
		"10/Min":                "neither a unit",
		"10/1h5min":             "neither a unit",
		"10/-5min":              "\"-5min\" is neither a unit",
		"10/0min":               "\"0min\" must be at least 1us",
		"10/9999999999days":     "at most 26062d",
		"1099511627777/s":       "2^40",
		"9223372036854775808/s": "2^40",
	} {
		_, err := algo.ParseLimit(spec)
		require.ErrorContains(t, err, fault, spec)
		require.ErrorContains(t, err, fmt.Sprintf("%q", spec))
	}
}

func TestPeriodsWithoutAUnitAreNotTooLong(t *testing.T) {
	for _, period := range []string{"1", "2", "9", "10", "+1", "-1", "1.5", "60"} {
		_, err := algo.ParseLimit("100/" + period)
		require.ErrorContains(t, err, "the unit is missing: write it after the number, such as "+strings.Trim(period, "+-")+"s", period)
		require.NotContains(t, err.Error(), "292 years")
		require.NotContains(t, err.Error(), "1ns")
	}
}

func TestErrorOfAnUnknownPeriodSaysWhatToWrite(t *testing.T) {
	for period, want := range map[string]string{
		"w": "a week is 7d", "Week": "a week is 7d", "weekly": "a week is 7d", "wks": "a week is 7d",
		"2weeks": "a week is 7d, so write 14d", "2 weeks": "a week is 7d, so write 14d",
		"fortnight": "a fortnight is 14d", "2fortnights": "a fortnight is 14d, so write 28d",
		"month": "a month has no fixed length, so write days, such as 30d", "months": "such as 30d", "monthly": "such as 30d",
		"mo": "such as 30d", "Month": "such as 30d", "3months": "such as 90d", "3 mo": "such as 90d", "1month": "such as 30d",
		"quarter": "a quarter has no fixed length, so write days, such as 90d", "quarterly": "such as 90d",
		"y": "a year has no fixed length, so write days, such as 365d", "yr": "such as 365d", "years": "such as 365d",
		"yearly": "such as 365d", "annum": "such as 365d", "annually": "such as 365d", "2years": "such as 730d",
		"hourly": "write h", "daily": "write d", "hr": "write h", "2hrs": "write 2h", "minutely": "write m",
		"Min": "write m", "DAY": "write d", "15Min": "write 15m", "per minute": "write m",
		"2 hours": "write 2h", " m": "write m", "1.5d": "write 36h", "1d12h": "write 36h", "1h30min": "write 1h30m", "1.5 hours": "write 1h30m",
		"250millis": "write 250ms", "millisecond": "write ms", "usec": "write us", "7days 24h": "write 8d",
	} {
		_, err := algo.ParseLimit("100/" + period)
		require.Error(t, err, period)
		_, hint, _ := strings.Cut(err.Error(), "nor a duration such as 250ms or 24h; ")
		require.True(t, strings.HasSuffix(hint, want), "%s: %v", period, err)
		words := strings.Fields(hint)
		_, err = algo.ParseLimit("100/" + words[len(words)-1])
		require.NoError(t, err, "the period that the hint names is valid")
	}
	for _, period := range []string{"M", "moon", "s/m", "-5min", "", "-", "ly", "s ago", "999years", "1..5days"} {
		_, err := algo.ParseLimit("100/" + period)
		require.ErrorContains(t, err, "nor a duration such as 250ms or 24h", period)
		require.True(t, strings.HasSuffix(err.Error(), "24h"), "%s has no hint: %v", period, err)
	}
	_, err := algo.ParseLimit("100 / m")
	require.ErrorContains(t, err, "write COUNT/PERIOD without spaces")
}

func TestValidateRefusesOutOfRange(t *testing.T) {
	for _, l := range []algo.Limit{{}, {Count: 1}, {Period: time.Second}, {Count: -1, Period: time.Second}, {Count: 1, Period: -1}, {Count: algo.MaxCount + 1, Period: time.Second}, {Count: 1, Period: 1}, {Count: 1, Period: time.Millisecond + 1}, {Count: 1, Period: algo.MaxPeriod + time.Microsecond}} {
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
	// algo: limit "100/moon": the period "moon" is neither a unit (us, ms, s or sec, m or min, h or hour, d or day) nor a duration such as 250ms or 24h
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
