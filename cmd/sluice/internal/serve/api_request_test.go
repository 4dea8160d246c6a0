package serve

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module openapitest tests invalid requests.

var validRequests = []struct {
	body string
	want decisionRequest
}{
	{`{"key":"user:42","cost":3,"rule":"api"}`, decisionRequest{"user:42", []string{"api"}, 3}},
	{` {"rule" : ["daily", "api"] , "key" : "user:42"} ` + "\r\n\t", decisionRequest{"user:42", []string{"daily", "api"}, 1}},
	{`{"key":""}`, decisionRequest{"", nil, 1}},
	{`{"key_base64":""}`, decisionRequest{"", nil, 1}},
	{`{"key_base64":"/wA="}`, decisionRequest{"\xff\x00", nil, 1}},
	{`{"key":"\u0000\ud83d\ude00\\ud800�\ufffd"}`, decisionRequest{"\x00\U0001f600\\ud800��", nil, 1}},
	{`{"k\u0065y":"a"}`, decisionRequest{"a", nil, 1}},
	{`{"key":"a","cost":9223372036854775807}`, decisionRequest{"a", nil, 1<<63 - 1}},
	{`{"key":"a","cost":2e2}`, decisionRequest{"a", nil, 200}},
	{`{"key":"a","cost":10e-1}`, decisionRequest{"a", nil, 1}},
	{`{"key":"a","cost":1.50e1}`, decisionRequest{"a", nil, 15}},
	{`{"key":"a","cost":9.223372036854775807e18}`, decisionRequest{"a", nil, 1<<63 - 1}},
	{`{"key":"a","cost":1` + strings.Repeat("0", 999) + `e-999}`, decisionRequest{"a", nil, 1}},
	{`{"key":"a","cost":0.` + strings.Repeat("0", 999) + `7e1000}`, decisionRequest{"a", nil, 7}},
	{`{"key":"` + strings.Repeat("é", maxKey/2) + `"}`, decisionRequest{strings.Repeat("é", maxKey/2), nil, 1}},
	{`{"key_base64":"` + strings.Repeat("AAAA", maxKey/3) + `AA=="}`, decisionRequest{strings.Repeat("\x00", maxKey), nil, 1}},
}

func TestValidRequestsAreDecoded(t *testing.T) {
	for _, c := range validRequests {
		t.Run(strconv.Quote(c.body[:min(len(c.body), 50)]), func(t *testing.T) {
			got, p := decodeRequest([]byte(c.body))
			require.Nil(t, p)
			require.Equal(t, c.want, got)
		})
	}
}

// TestInexactCostsAreRefused: a number that a floating-point number would round to a valid cost is no valid cost.
func TestInexactCostsAreRefused(t *testing.T) {
	for _, cost := range []string{
		"1.0000000000000000001", "2.00000000000000000001e2", "5e-1", "9007199254740992.1", "9223372036854775808", "9223372036854775807.5",
		"1e19", "1e99999999999999999999", "0", "-0", "0e5", "-1", "1e-400", "1e-99999999999999999999", `"1"`, "null", "[1]",
	} {
		_, p := decodeRequest([]byte(`{"key":"a","cost":` + cost + `}`))
		require.NotNil(t, p, cost)
		require.Equal(t, "cost", p.Field, cost)
		require.Contains(t, p.Detail, "cost: want a whole number from 1 to 9223372036854775807, got ", cost)
	}
}
