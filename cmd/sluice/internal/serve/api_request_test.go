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
	want DecisionRequest
}{
	{`{"key":"user:42","cost":3,"rule":"api"}`, DecisionRequest{"user:42", []string{"api"}, 3}},
	{` {"rule" : ["daily", "api"] , "key" : "user:42"} ` + "\r\n\t", DecisionRequest{"user:42", []string{"daily", "api"}, 1}},
	{`{"key":""}`, DecisionRequest{"", nil, 1}},
	{`{"key_base64":""}`, DecisionRequest{"", nil, 1}},
	{`{"key_base64":"/wA="}`, DecisionRequest{"\xff\x00", nil, 1}},
	{`{"key":"\u0000\ud83d\ude00\\ud800�\ufffd"}`, DecisionRequest{"\x00\U0001f600\\ud800��", nil, 1}},
	{`{"k\u0065y":"a"}`, DecisionRequest{"a", nil, 1}},
	{`{"key":"a","cost":9223372036854775807}`, DecisionRequest{"a", nil, 1<<63 - 1}},
	{`{"key":"a","cost":3.0}`, DecisionRequest{"a", nil, 3}},
	{`{"key":"a","cost":2e2}`, DecisionRequest{"a", nil, 200}},
	{`{"key":"` + strings.Repeat("é", maxKey/2) + `"}`, DecisionRequest{strings.Repeat("é", maxKey/2), nil, 1}},
	{`{"key_base64":"` + strings.Repeat("AAAA", maxKey/3) + `AA=="}`, DecisionRequest{strings.Repeat("\x00", maxKey), nil, 1}},
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
