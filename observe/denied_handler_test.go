// These tests promise the text and the JSON of the list, and that both are safe to show.
package observe

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func listOf(keys ...string) *Denied {
	d := NewDenied(10)
	d.clock = still
	d.Reset()
	for i, key := range keys {
		for range len(keys) - i {
			d.add("client", key)
		}
	}
	d.clock = func() time.Time { return still().Add(90 * time.Second) }
	return d
}

func get(d *Denied, accept ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/debug/denied", nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func TestListAsText(t *testing.T) {
	w := get(listOf("203.0.113.7", "a\x1b[2J\u202e\n\x9b<b>"))
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, `3 denials since 2026-01-01T12:00:00Z (1m30s).
Each count is too high by at most its error bound. A key that is not listed was denied at most 0 times.

       count  error bound  rule and key
           2            0  "client" "203.0.113.7"
           1            0  "client" "a\x1b[2J\u202e\n\x9b<b>"
`, w.Body.String())
}

func TestListAsJSON(t *testing.T) {
	w := get(listOf("203.0.113.7", "a\x1b\x7f<b>é\u009b😀", "\xff"), "application/json")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, `{"since":"2026-01-01T12:00:00Z","denials":6,"missing_at_most":0,"keys":[`+
		`{"rule":"client","key":"203.0.113.7","count":3,"error_bound":0},`+
		`{"rule":"client","key":"a\u001b\u007f\u003cb\u003e\u00e9\u009b\ud83d\ude00","count":2,"error_bound":0},`+
		`{"rule":"client","key":"\ufffd","count":1,"error_bound":0,"bytes":"/w=="}]}`+"\n", w.Body.String())
}

func TestListAnswersOnlyGetAndHead(t *testing.T) {
	for method, code := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		listOf("ann").ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, code, w.Code, method)
		if code == 405 {
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
	}
}

func TestAcceptSelectsJSON(t *testing.T) {
	for _, test := range []struct {
		want   string
		accept []string
	}{
		{"text/plain; charset=utf-8", nil},
		{"text/plain; charset=utf-8", []string{"*/*"}},                                       // curl
		{"text/plain; charset=utf-8", []string{"text/html,application/xml;q=0.9,*/*;q=0.8"}}, // browsers
		{"text/plain; charset=utf-8", []string{"text/plain"}},
		{"application/json", []string{"application/json"}},
		{"application/json", []string{"Application/JSON"}},
		{"application/json", []string{"application/json, text/plain, */*"}}, // axios
		{"application/json", []string{"text/html", "application/json"}},
	} {
		require.Equal(t, test.want, get(listOf("ann"), test.accept...).Header().Get("Content-Type"), test.accept)
	}
}

// Attackers choose keys. Whatever the bytes are, a terminal can print the list, a browser
// does not run it, and a program gets the exact keys.
func FuzzKeysAreHarmless(f *testing.F) {
	f.Add("\x1b]0;title\x07", "\u202e\u2028\u009b")
	f.Add("<script>", "\xff\xfe😀\x7f")
	f.Fuzz(func(t *testing.T, rule, key string) {
		if len(key) > MaxDeniedKey || !utf8.ValidString(rule) {
			return
		}
		d := NewDenied(1)
		d.add(rule, key)
		text, document := get(d).Body.String(), get(d, "application/json").Body.String()
		require.NotContains(t, document, "<")
		for _, c := range text + document {
			require.True(t, c == '\n' || c >= ' ' && c < 0x7f, "%q", c)
		}
		require.Equal(t, 5, strings.Count(text, "\n"))
		var got struct {
			Keys []struct {
				Rule, Key string
				Bytes     []byte
			}
		}
		require.NoError(t, json.Unmarshal([]byte(document), &got))
		require.Equal(t, rule, got.Keys[0].Rule)
		if got.Keys[0].Bytes != nil {
			got.Keys[0].Key = string(got.Keys[0].Bytes)
		}
		require.Equal(t, key, got.Keys[0].Key)
	})
}
