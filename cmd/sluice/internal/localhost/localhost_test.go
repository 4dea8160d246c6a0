package localhost_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/localhost"
)

// The tests of this package promise:
//
//   - Only localhost and loopback addresses are hosts of this machine, with or without a port.
//   - A request with an Origin, or from any site, is from a page. The own page can be excepted.

func TestIsHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:80": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9:80": true,
		"[::1]": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":80": false, "0.0.0.0": false, "192.0.2.1:80": false, "[::]": false,
		"localhost.example": false, "127.0.0.1.example:80": false,
	} {
		require.Equal(t, want, localhost.IsHost(host), host)
	}
}

func TestFromPage(t *testing.T) {
	for _, c := range []struct {
		header     http.Header
		own, other bool // the results
	}{
		{nil, false, false},
		{http.Header{"Sec-Fetch-Mode": {"cors"}}, false, false},
		{http.Header{"Sec-Fetch-Site": {"none"}}, false, false},
		{http.Header{"Sec-Fetch-Site": {"same-origin"}}, false, true},
		{http.Header{"Origin": {"http://localhost:80"}, "Sec-Fetch-Site": {"same-origin"}}, false, true},
		{http.Header{"Origin": {"http://localhost:81"}}, true, true},
		{http.Header{"Origin": {"http://localhost:80"}, "Sec-Fetch-Site": {"same-site"}}, true, true},
		{http.Header{"Origin": {"null"}}, true, true},
		{http.Header{"Origin": {""}}, true, true},
		{http.Header{"Sec-Fetch-Site": {"none", "cross-site"}}, true, true},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:80/", nil)
		r.Header = c.header
		require.Equal(t, c.own, localhost.FromPage(r, true), "%v", c.header)
		require.Equal(t, c.other, localhost.FromPage(r, false), "%v", c.header)
	}
}
