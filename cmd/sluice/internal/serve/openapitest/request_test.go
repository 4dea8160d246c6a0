package openapitest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxBody = 64 << 10 // bytes of a request
	maxKey  = 4 << 10  // bytes of a key, decoded
)

// invalidRequests are bodies that the service refuses.
var invalidRequests = []struct {
	body   string
	status int    // 0 is 400
	detail string // a part of the problem's detail
	field  string // the problem's field
	offset int    // of a malformed body
	valid  bool   // the body is valid under the document, because a schema cannot express the fault
}{
	{body: ``, detail: "empty", offset: 0},
	{body: `{`, detail: "line 1, column 2: the JSON ends early", offset: 1},
	{body: "{\"key\":\"a\",\n \"cost\":}", detail: "line 2, column 9:", offset: 20},
	{body: `{"key":"a",}`, detail: "column 12:", offset: 11},
	{body: `key=user:42&cost=3`, detail: "column 1:", offset: 0},
	{body: `{"key":"a"}{}`, detail: "column 12:", offset: 11, valid: true},
	{body: `{"key":"a"} x`, detail: "column 13:", offset: 12, valid: true},
	{body: "{\"key\":\"a\xff\"}", detail: "column 10: the body is not UTF-8; send a key that is not UTF-8 as key_base64", offset: 9, valid: true},
	{body: "{\"key\":\"\xed\xa0\x80\"}", detail: "not UTF-8", offset: 8, valid: true}, // a lone surrogate

	{body: `[]`, detail: "the body is a list; want an object such as {"},
	{body: `"key"`, detail: "the body is a string"},
	{body: `null`, detail: "the body is null"},
	{body: `17`, detail: "the body is a number"},
	{body: `true`, detail: "the body is a boolean"},

	{body: `{}`, field: "key", detail: `key is missing; want {"key"`},
	{body: `{"key":"a","key_base64":"YQ=="}`, field: "key_base64", detail: "both key and key_base64 are there"},
	{body: `{"key":"a","rul":"api"}`, field: "rul", detail: `unknown member "rul"; want key or key_base64, cost and rule`},
	{body: `{"Key":"a"}`, field: "Key", detail: `unknown member "Key"`},
	{body: `{"key":"a","key":"b"}`, field: "key", detail: "twice", valid: true},
	{body: `{"key":"a","k\u0065y":"b"}`, field: "key", detail: "twice", valid: true},

	{body: `{"key":null}`, field: "key", detail: "key: want a string such as"},
	{body: `{"key":42}`, field: "key", detail: "got 42"},
	{body: `{"key":{"a":1}}`, field: "key", detail: "got an object"},
	{body: `{"key":"\ud800"}`, field: "key", detail: "key_base64 for a key that is not UTF-8", valid: true},
	{body: `{"key":"\udc00\ud800"}`, field: "key", detail: "not UTF-8", valid: true},
	{body: `{"key":"\\\ud83d"}`, field: "key", detail: "not UTF-8", valid: true},

	{body: `{"key_base64":"YQ"}`, field: "key_base64", detail: "want a string in standard base64"},
	{body: `{"key_base64":"YR=="}`, field: "key_base64", detail: "base64"}, // would be YQ==
	{body: `{"key_base64":"-_8="}`, field: "key_base64", detail: "base64"},
	{body: `{"key_base64":"YQ\n=="}`, field: "key_base64", detail: "base64"},
	{body: `{"key_base64":1}`, field: "key_base64", detail: "got 1"},

	{body: `{"key":"a","cost":0}`, field: "cost", detail: "cost: want a whole number from 1 to 9223372036854775807, got 0"},
	{body: `{"key":"a","cost":1.5}`, field: "cost", detail: "got 1.5"},
	{body: `{"key":"a","cost":"3"}`, field: "cost", detail: `got "3"`},
	{body: `{"key":"a","cost":9223372036854775808}`, field: "cost", detail: "got 9223372036854775808", valid: true},
	{body: `{"key":"a","cost":1.0000000000000000001}`, field: "cost", detail: "got 1.0000000000000000001", valid: true}, // the validator reads a floating-point number
	{body: `{"key":"a","cost":1e19}`, field: "cost", detail: "got 1e19"},

	{body: `{"key":"a","rule":null}`, field: "rule", detail: "leave it out to use all rules, got null"},
	{body: `{"key":"a","rule":[]}`, field: "rule", detail: "leave it out to use all rules, got a list"},
	{body: `{"key":"a","rule":{"api":1}}`, field: "rule", detail: "got an object"},
	{body: `{"key":"a","rule":["api",3]}`, field: "rule", detail: "got 3"},
	{body: `{"key":"a","rule":["api","api"]}`, field: "rule", detail: `"api" is named twice`},

	{body: `{"key":"a","rule":"apo"}`, status: 404, field: "rule", detail: `unknown rule "apo"`, valid: true},
	{body: `{"key":"a","rule":["api","API"]}`, status: 404, field: "rule", detail: `unknown rule "API"`, valid: true},
	{body: `{"key":"` + strings.Repeat("é", maxKey/2) + `x"}`, status: 413, field: "key", detail: "4097 bytes", valid: true},
	{body: `{"key_base64":"` + strings.Repeat("AAAA", (maxKey+3)/3) + `"}`, status: 413, field: "key_base64", detail: "4098 bytes", valid: true},
	{body: `{"key":"a"}` + strings.Repeat(" ", maxBody), status: 413, detail: "more than 65536 bytes", valid: true},
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	route := operation(t, document(t), "/v1/allow")
	h := apiHandler(t)
	for _, c := range invalidRequests {
		t.Run(brief(c.body), func(t *testing.T) {
			r := newRequest("/v1/allow", c.body)
			w := send(h, r)
			require.Equal(t, cmp.Or(c.status, http.StatusBadRequest), w.Code, w.Body)
			require.NoError(t, checkResponse(route, r, w))
			var p struct {
				Type, Detail, Field string
				Offset              *int
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			assert.Contains(t, p.Detail, c.detail)
			assert.Equal(t, c.field, p.Field)
			if strings.HasSuffix(p.Type, "/malformed") {
				require.NotNil(t, p.Offset)
				assert.Equal(t, c.offset, *p.Offset)
			}
			assert.NotContains(t, p.Detail, "\n")
			if !c.valid {
				assert.Error(t, checkRequest(route, c.body), "the document allows the request")
			}
		})
	}
}

func brief(body string) string {
	return strconv.Quote(body[:min(len(body), 50)])
}

// validRequests are bodies that the service accepts. The package serve tests how it decodes them.
var validRequests = []string{
	`{"key":"user:42","cost":3,"rule":"api"}`,
	` {"rule" : ["daily", "api"] , "key" : "user:42"} ` + "\r\n\t",
	`{"key":""}`,
	`{"key_base64":""}`,
	`{"key_base64":"/wA="}`,
	`{"key":"\u0000\ud83d\ude00\\ud800�\ufffd"}`,
	`{"k\u0065y":"a"}`,
	`{"key":"a","cost":9223372036854775807}`,
	`{"key":"a","cost":3.0}`,
	`{"key":"a","cost":2e2}`,
	`{"key":"` + strings.Repeat("é", maxKey/2) + `"}`,
	`{"key_base64":"` + strings.Repeat("AAAA", maxKey/3) + `AA=="}`,
}

// FuzzRequest sends any bytes as the body. If the service accepts a body, it is valid under the document.
// Every response is valid under the document.
func FuzzRequest(f *testing.F) {
	for _, c := range invalidRequests {
		f.Add([]byte(c.body))
	}
	for _, body := range validRequests {
		f.Add([]byte(body))
	}
	route := operation(f, document(f), "/v1/peek")
	h := apiHandler(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newRequest("/v1/peek", string(body))
		w := send(h, r)
		require.NoError(t, checkResponse(route, r, w))
		if w.Code == http.StatusOK || w.Code == http.StatusNotFound {
			require.NoError(t, checkRequest(route, string(body)))
		}
		require.NotContains(t, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}, w.Code)
	})
}
