package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage/memory"
)

// bin is a ResponseWriter that costs nothing but its header, which the server
// makes afresh for every response too.
type bin struct{ header http.Header }

func (b *bin) Header() http.Header         { return b.header }
func (b *bin) Write(p []byte) (int, error) { return len(p), nil }
func (b *bin) WriteHeader(int)             {}

// bare is a handler that says what its response is, as most do. Without a field of
// its own, the header would have to be made for the limit's.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = plain
	w.WriteHeader(http.StatusOK)
})

var plain = []string{"text/plain"}

func limited(t testing.TB, next http.Handler) http.Handler {
	client, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	rules := []compose.Rule[*http.Request]{{Name: "client", Key: client, Policy: mustPolicy("gcra 1000000000/s")}}
	limiter, err := compose.New(new(memory.Store), rules...)
	require.NoError(t, err)
	return httplimit.Handler(limiter, next, httplimit.Options{Rules: rules})
}

// serve serves one request as a server does, with a header of its own.
func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&bin{header: make(http.Header)}, r)
}

func TestAtMostThreeAllocations(t *testing.T) {
	h := limited(t, bare)
	for _, peer := range []string{"192.0.2.1:5001", "[2001:db8::1]:5001"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		without := testing.AllocsPerRun(1000, func() { serve(bare, r) })
		with := testing.AllocsPerRun(1000, func() { serve(h, r) })
		t.Logf("%s: %v, bare %v", peer, with, without)
		require.LessOrEqual(t, with-without, 3.0, peer)
	}
}

func BenchmarkHandler(b *testing.B) {
	for _, test := range []struct {
		name string
		h    http.Handler
	}{{"bare", bare}, {"limited", limited(b, bare)}} {
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

func TestContentLength(t *testing.T) {
	cost := httplimit.ContentLength(1000)
	require.EqualValues(t, 0, cost(httptest.NewRequest("GET", "/", nil)))
	require.EqualValues(t, 3, cost(httptest.NewRequest("PUT", "/", strings.NewReader("abc"))))
	chunked := httptest.NewRequest("PUT", "/", strings.NewReader("abc"))
	chunked.ContentLength = -1
	require.EqualValues(t, 1000, cost(chunked))
}
