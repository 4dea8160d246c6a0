// These tests promise how many allocations a limiter adds to a request, and what a request costs by its
// length and by its method.
package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
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

func limited(t testing.TB, next http.Handler, spec string) http.Handler {
	client, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	limiter, err := sluice.For(new(memory.Store), sluice.Rule[*http.Request]{Name: "client", Key: client, Spec: spec})
	require.NoError(t, err)
	return httplimit.Handler(limiter, next, httplimit.Options{})
}

// serve calls the handler with a new header, as net/http does.
func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&discardWriter{header: make(http.Header)}, r)
}

// Two allocations are for the fields, and one is for the text of an IPv6 prefix.
func TestHandlerAllocatesOnlyTheFields(t *testing.T) {
	for _, test := range []struct {
		peer, spec string
		most       float64
	}{
		{"192.0.2.1:5001", "gcra 1000000000/s", 2},
		{"[2001:db8::1]:5001", "gcra 1000000000/s", 3},
		{"192.0.2.1:5001", "all(gcra 1000000/s; gcra 1000000000/m)", 2},
		{"[2001:db8::1]:5001", "all(gcra 1000000/s; gcra 1000000000/m)", 3},
	} {
		h := limited(t, bare, test.spec)
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = test.peer
		without := testing.AllocsPerRun(1000, func() { serve(bare, r) })
		with := testing.AllocsPerRun(1000, func() { serve(h, r) })
		require.LessOrEqual(t, with-without, test.most, "%s: %s", test.peer, test.spec)
	}
}

func BenchmarkHandler(b *testing.B) {
	for _, test := range []struct {
		name string
		h    http.Handler
	}{{"bare", bare}, {"limited", limited(b, bare, "gcra 1000000000/s")}} {
		b.Run(test.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = "192.0.2.1:5001"
			b.ReportAllocs()
			for b.Loop() {
				serve(test.h, r)
			}
		})
	}
}

func TestCostByContentLength(t *testing.T) {
	cost := httplimit.CostByContentLength(1000)
	require.EqualValues(t, 0, cost(httptest.NewRequest("GET", "/", nil)))
	require.EqualValues(t, 3, cost(httptest.NewRequest("PUT", "/", strings.NewReader("abc"))))
	chunked := httptest.NewRequest("PUT", "/", strings.NewReader("abc"))
	chunked.ContentLength = -1
	require.EqualValues(t, 1000, cost(chunked))
}

// On a client, a ContentLength of 0 can mean that the length is not known.
func TestCostByContentLengthOnClients(t *testing.T) {
	for want, body := range map[int64]io.Reader{
		0:    http.NoBody,
		3:    strings.NewReader("abc"),
		1000: io.MultiReader(strings.NewReader("abc")),
	} {
		r, err := http.NewRequest("PUT", "http://example.com/", body)
		require.NoError(t, err)
		require.Equal(t, want, httplimit.CostByContentLength(1000)(r))
	}
	r, err := http.NewRequest("GET", "http://example.com/", nil)
	require.NoError(t, err)
	require.Zero(t, httplimit.CostByContentLength(1000)(r))
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
