package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStampsInJSON(t *testing.T) {
	tests := []struct {
		value, want string // want in RFC 3339; "" if there is no such time
	}{
		{`"2015-05-17T10:05:03Z"`, "2015-05-17T10:05:03Z"},
		{`"2015-05-17T12:05:03.25+02:00"`, "2015-05-17T10:05:03.25Z"},
		{`"2015-05-17 10:05:03,123"`, "2015-05-17T10:05:03.123Z"},
		{`"2015-05-17T00:05:03-1000"`, "2015-05-17T10:05:03Z"},
		{`"17/May/2015:12:05:03 +0200"`, "2015-05-17T10:05:03Z"},
		{`"[17/May/2015:10:05:03.5 +0000]"`, "2015-05-17T10:05:03.5Z"},
		{`1431857103`, "2015-05-17T10:05:03Z"},
		{`"1431857103.25"`, "2015-05-17T10:05:03.25Z"},
		{`1.43185710325e+09`, "2015-05-17T10:05:03.25Z"},
		{`1431857103250`, "2015-05-17T10:05:03.25Z"},
		{`1431857103250.5`, "2015-05-17T10:05:03.2505Z"},
		{`1431857103250000`, "2015-05-17T10:05:03.25Z"},
		{`1431857103250000000`, "2015-05-17T10:05:03.25Z"},

		{`99999999999`, "5138-11-16T09:46:39Z"}, // the largest of each unit and the smallest of the next
		{`100000000000`, "1973-03-03T09:46:40Z"},
		{`99999999999999`, "5138-11-16T09:46:39.999Z"},
		{`100000000000000`, "1973-03-03T09:46:40Z"},
		{`99999999999999999`, "5138-11-16T09:46:39.999999Z"},
		{`100000000000000000`, "1973-03-03T09:46:40Z"},
		{`10000000000000000000`, ""},
		{`1e400`, ""},
		{`1e99999999999999999999`, ""},

		{`0`, "1970-01-01T00:00:00Z"},
		{`-0.000000001`, "1969-12-31T23:59:59.999999999Z"},
		{`-0.0000000019`, "1969-12-31T23:59:59.999999999Z"},
		{`1e-400`, "1970-01-01T00:00:00Z"},
		{`"0000-01-01T00:00:00Z"`, "0000-01-01T00:00:00Z"},
		{`"9999-12-31T23:59:59.999999999Z"`, "9999-12-31T23:59:59.999999999Z"},
		{`"2016-02-29T00:00:00Z"`, "2016-02-29T00:00:00Z"},
		{`"2015-02-29T00:00:00Z"`, ""},
		{`"1900-02-29T00:00:00Z"`, ""},
		{`"2015-05-17T24:00:00Z"`, ""},
		{`"2016-12-31T23:59:60Z"`, "2016-12-31T23:59:59.999999999Z"},
		{`"2017-01-01T00:59:60.25+01:00"`, "2016-12-31T23:59:59.999999999Z"},
		{`"31/Dec/2016:23:59:60 +0000"`, "2016-12-31T23:59:59.999999999Z"},
		{`"2016-12-31T23:59:61Z"`, ""},
		{`"2016-12-31T23:59:70Z"`, ""},
		{`"2016-12-31T23:59:6"`, ""},
		{`"2015-05-17T10:05:03+24:00"`, ""},
		{`"2015-05-17"`, ""},
		{`"yesterday"`, ""},
		{`""`, ""},
		{`true`, ""},
	}
	for _, test := range tests {
		p := newParser(Options{})
		var e Entry
		reason := p.parse([]byte(`{"time":`+test.value+`,"status":200}`), &e)
		got := e.Time.Format(time.RFC3339Nano)
		if test.want == "" {
			require.Equal(t, reasonStamp, reason, test.value)
		} else {
			require.Empty(t, reason, test.value)
			require.Equal(t, test.want, got, test.value)
		}
	}
}

func TestTheFirstTimeIsParsedInFull(t *testing.T) {
	var c clock
	_, ok := c.clf([]byte(strings.Repeat("\x00", 17) + ":03 " + strings.Repeat("\x00", 5)))
	require.False(t, ok)
}

func TestInvalidDates(t *testing.T) {
	var c clock
	for year := 1896; year <= 2104; year++ {
		for month := time.January; month <= time.December; month++ {
			last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
			for day := range 40 {
				_, ok := c.rfc3339(fmt.Appendf(nil, "%d-%02d-%02dT00:00:00", year, month, day))
				require.Equal(t, 1 <= day && day <= last, ok, "%d-%d-%d", year, month, day)
			}
		}
	}
	for _, month := range []string{"00", "13", "99"} {
		_, ok := c.rfc3339([]byte("2015-" + month + "-01T00:00:00"))
		require.False(t, ok)
	}
}
