package serve

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// statusOf is the answer to a GET of a target as it stands on the request's line.
func statusOf(t *testing.T, w *testServer, target string) int {
	t.Helper()
	_, reader := say(t, w, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	return response.StatusCode
}

// TestTargetsWithoutAPathAreRefused: they would bypass rules for paths.
func TestTargetsWithoutAPathAreRefused(t *testing.T) {
	upstream := sends(t, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
	w := startTestServer(t, "\nrules: [{name: login, policy: fixedwindow 1/h, paths: [/login]}]\n", at(t, upstream))
	for _, target := range []string{"x:login", "http:login", "x:login?y", "x:%2flogin"} {
		require.Equal(t, http.StatusBadRequest, statusOf(t, w, target), target)
	}
	for _, target := range []string{"/", "http://evil.example", "x://y/search", "x:?/login"} {
		require.Equal(t, http.StatusOK, statusOf(t, w, target), target)
	}
	require.Equal(t, http.StatusOK, statusOf(t, w, "x:/login"))
	require.Equal(t, http.StatusTooManyRequests, statusOf(t, w, "http://evil.example/login"))
}

func TestDotDotCannotLeaveTheUpstreamPath(t *testing.T) {
	seen := make(chan string, 1)
	note := func(_ http.ResponseWriter, r *http.Request) { seen <- r.RequestURI }
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, note), func(o *Options) { o.Upstream.Path = "/base" })
	for _, target := range []string{
		"/..", "/../base/login", "/x/../login", "/%2e%2e/base/login", "/.%2E/x", "/..%2fx", "/x%2f..", "/..;x=1/x", "/..%3bx/y", `/..\x`, "/x%5c..%5cy", "http://y/../x",
	} {
		require.Equal(t, http.StatusBadRequest, statusOf(t, w, target), target)
	}
	for target, want := range map[string]string{"/": "/base/", "/login": "/base/login", "/a..b/...": "/base/a..b/...", "/.;x/.": "/base/.;x/.", "/x?../y": "/base/x?../y"} {
		require.Equal(t, http.StatusOK, statusOf(t, w, target), target)
		require.Equal(t, want, <-seen)
	}
}

// TestDotDotIsAllowedWithoutAnUpstreamPath: rules compare cleaned paths.
func TestDotDotIsAllowedWithoutAnUpstreamPath(t *testing.T) {
	w := startTestServer(t, "\nrules: [{name: all, policy: gcra 100/h}]\n", withUpstream(t, hello), func(o *Options) { o.Upstream.Path = "/" })
	require.Equal(t, http.StatusOK, statusOf(t, w, "/x/../y"))
}
