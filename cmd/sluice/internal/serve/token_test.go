package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const secret = "correct-horse-battery"

func TestPublicAddressNeedsAToken(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.ErrorContains(t, err, "want --token-file", address)
	}
	for _, address := range []string{"localhost:0", "127.0.0.9:0"} {
		w, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.NoError(t, err, address)
		w.Close()
	}
}

func TestToken(t *testing.T) {
	w := startTestServer(t, oneByIP, func(o *Options) { o.API, o.Token = "127.0.0.1:0", secret })
	for path, open := range map[string]bool{"/v1/allow": false, "/metrics": false, "/debug/denied": false, "/openapi.yaml": false, "/livez": true, "/readyz": true} {
		a := fetch(t, w.apiURL(path))
		require.Equal(t, open, a.StatusCode != http.StatusUnauthorized, path)
		if !open {
			require.Equal(t, `Bearer realm="sluice"`, a.Header.Get("WWW-Authenticate"))
		}
	}
	for field, status := range map[string]int{
		"Bearer " + secret:           200,
		"bearer " + secret:           200,
		"Bearer " + secret + "x":     401,
		"Bearer ":                    401,
		secret:                       401,
		"Basic " + secret:            401,
		"Bearer x, Bearer " + secret: 401,
	} {
		a := call(t, http.MethodPost, w.apiURL("/v1/peek"), strings.NewReader(`{"key":"a"}`), "Authorization", field)
		require.Equal(t, status, a.StatusCode, field)
	}
	require.NotContains(t, w.logged.String(), secret)
}

func TestPublicListenerShowsNoKeys(t *testing.T) {
	w := startTestServer(t, oneByIP, func(o *Options) { o.API, o.Token = ":0", secret })
	_, port, _ := strings.Cut(strings.TrimPrefix(w.api.Addr().String(), "[::]"), ":")
	at := "http://127.0.0.1:" + port
	require.Equal(t, http.StatusNotFound, fetch(t, at+"/debug/denied", "Authorization", "Bearer "+secret).StatusCode)
	require.Equal(t, http.StatusOK, fetch(t, at+"/metrics", "Authorization", "Bearer "+secret, "Host", "limits.example").StatusCode)
}

func TestProxyServesNoAPI(t *testing.T) {
	w := startTestServer(t, manyByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/denied"} {
		require.Equal(t, http.StatusTeapot, fetch(t, w.proxyURL(path)).StatusCode, path)
	}
}
