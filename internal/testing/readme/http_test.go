package readme

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
)

func limited(next http.Handler, store storage.Store) (http.Handler, error) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")} // nil if clients connect directly
	client, err := httplimit.ClientIP{Trusted: proxies}.Key()
	if err != nil {
		return nil, err
	}
	limiter, err := sluice.For(store, sluice.By("client", client, "gcra 100/m burst=20"))
	if err != nil {
		return nil, err
	}
	isHealthCheck := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	return httplimit.Handler(limiter, next, httplimit.Options{Skip: isHealthCheck}), nil
}

func TestHandlerLimitsAServer(t *testing.T) {
	h, err := limited(http.NotFoundHandler(), nil)
	require.NoError(t, err)
	denied := 0
	for range 50 { // one unit is refilled every 600 ms
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, []string{`"client";q=20;w=12`}, w.Header().Values("RateLimit-Policy"))
		if w.Code == http.StatusTooManyRequests {
			require.Equal(t, []string{"1"}, w.Header().Values("Retry-After"))
			denied++
		}
	}
	require.Positive(t, denied)
	require.LessOrEqual(t, denied, 30)

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(t, http.StatusNotFound, w.Code, "a health check has no limit")
	require.Empty(t, w.Header().Values("RateLimit-Policy"))
}
