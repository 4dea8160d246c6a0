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

func newClient(own *sluice.Limiter[*http.Request]) *http.Client {
	return &http.Client{Transport: &httplimit.Transport{Limiter: own}}
}

func TestHandlerLimitsAServer(t *testing.T) {
	h, err := limited(http.NotFoundHandler(), nil)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	client := newClient(sluice.MustFor(nil, sluice.By("host", httplimit.KeyByHost, "gcra 5/s")))
	for path, want := range map[string][]string{"/": {`"client";q=20;w=12`}, "/healthz": nil} {
		response, err := client.Get(server.URL + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.Header.Values("RateLimit-Policy"), path)
	}
}
