// These tests promise how many allocations a limiter adds to a request, and what a request costs by its
// length and by its method.
package httplimit_test

import (
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage/memory"
)

// discardWriter is a ResponseWriter that does nothing, so that only the limiter's allocations count.
type discardWriter struct{ header http.Header }

func (b *discardWriter) Header() http.Header         { return b.header }
func (b *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (b *discardWriter) WriteHeader(int)             {}

// bare is a handler that sets a field, as most do. Otherwise the limiter would be charged
// for the allocation of the header.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = plain
	w.WriteHeader(http.StatusOK)
})

var plain = []string{"text/plain"}

// limited returns a handler whose rule finds its policy by the request if byRequest is set.
func limited(t testing.TB, next http.Handler, spec string, byRequest bool) http.Handler {
	client, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	rule := sluice.Rule[*http.Request]{Name: "client", Key: client, Spec: spec}
	if byRequest {
		policy := sluice.MustPolicy(spec)
		rule.Spec, rule.PolicyFor = "", func(*http.Request) (algo.Policy, error) { return policy, nil }
	}
	limiter, err := sluice.For(new(memory.Store), rule)
	require.NoError(t, err)
	return httplimit.Handler(limiter, next, httplimit.Options{})
}

// serve calls the handler with a new header, as net/http does.
func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&discardWriter{header: make(http.Header)}, r)
}

// Four allocations are for the fields, and up to two are for the text of the address.
func TestHandlerAllocatesOnlyTheFields(t *testing.T) {
	for _, peer := range []string{"192.0.2.1:5001", "[2001:db8::1]:5001"} {
		for _, spec := range []string{"gcra 1000000000/s", "all(gcra 1000000/s; gcra 1000000000/m)"} {
			for _, byRequest := range []bool{false, true} {
				h := limited(t, bare, spec, byRequest)
				r := httptest.NewRequest("GET", "/", nil)
				r.RemoteAddr = peer
				without := testing.AllocsPerRun(1000, func() { serve(bare, r) })
				with := testing.AllocsPerRun(1000, func() { serve(h, r) })
				require.LessOrEqual(t, with-without, 6.0, "%s: %s", peer, spec)
			}
		}
	}
}

func TestCostByContentLength(t *testing.T) {
	cost := httplimit.CostByContentLength(1000)
	chunked := httptest.NewRequest("PUT", "/", strings.NewReader("abc"))
	chunked.ContentLength = -1
	onClient := func(body io.Reader) *http.Request {
		r, err := http.NewRequest("PUT", "http://example.com/", body)
		require.NoError(t, err)
		return r
	}
	for _, test := range []struct {
		r    *http.Request
		want int64
	}{
		{httptest.NewRequest("GET", "/", nil), 0},
		{httptest.NewRequest("PUT", "/", strings.NewReader("abc")), 3},
		{chunked, 1000},
		{onClient(nil), 0},
		{onClient(http.NoBody), 0},
		{onClient(strings.NewReader("abc")), 3},
		{onClient(io.MultiReader(strings.NewReader("abc"))), 1000}, // its ContentLength of 0 means that the length is not known
	} {
		require.Equal(t, test.want, cost(test.r))
	}
}

// fastCGI sends a request over FastCGI, and returns when the server has closed the connection.
func fastCGI(t *testing.T, address, content, params string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	for _, record := range []struct {
		kind    byte
		content string
	}{{1, "\x00\x01\x00\x00\x00\x00\x00\x00"}, {4, params}, {4, ""}, {5, content}, {5, ""}} {
		if record.kind == 5 && record.content == "" && content == "" {
			content = " " // the end of the content is sent once
			continue
		}
		_, err := io.WriteString(conn, string([]byte{1, record.kind, 0, 1, 0, byte(len(record.content)), 0, 0})+record.content)
		require.NoError(t, err)
	}
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
}

// net/http/fcgi sets no RequestURI, and gives a request without content another body than http.NoBody.
func TestCostByContentLengthOverFastCGI(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	costs := make(chan int64, 1)
	cost := httplimit.CostByContentLength(1000)
	count := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { costs <- cost(r) })
	go fcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wrapped" {
			r.Body = http.MaxBytesReader(w, r.Body, 9)
		}
		count(w, r)
	}))
	const params = "\x0e\x03REQUEST_METHODPUT\x0f\x08SERVER_PROTOCOLHTTP/1.1\x0b\x01REQUEST_URI/\x0b\x09REMOTE_ADDR192.0.2.1"
	for _, test := range []struct {
		content, params string
		want            int64
	}{
		{"", params, 0},
		{"abc", params + "\x0e\x01CONTENT_LENGTH3", 3},
		{"abc", params, 1000},
		{"abc", strings.Replace(params, "\x01REQUEST_URI/", "\x08REQUEST_URI/wrapped", 1), 1000},
	} {
		fastCGI(t, listener.Addr().String(), test.content, test.params)
		require.Equal(t, test.want, <-costs)
	}
}

func TestCostByMethod(t *testing.T) {
	costs := map[string]int64{"GET": 1, "POST": 10, "OPTIONS": 0}
	cost := httplimit.CostByMethod(costs, 20)
	costs["GET"] = 7 // must not change the cost
	for method, want := range map[string]int64{"GET": 1, "POST": 10, "OPTIONS": 0, "get": 20, "PURGE": 20} {
		require.Equal(t, want, cost(httptest.NewRequest(method, "/", nil)), method)
	}
	require.EqualValues(t, 1, cost(&http.Request{}), "an empty method is a GET")
}
