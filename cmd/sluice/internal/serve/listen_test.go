package serve

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// socketPath is short: sockets take few bytes, and t.TempDir has the test's name.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func onSocket(path string) func(*Options) { return func(o *Options) { o.API = "unix:" + path } }

// throughSocket asks at a socket.
func throughSocket(t *testing.T, path, url string) (int, error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	response, err := (&http.Client{Transport: transport, Timeout: testTimeout}).Get(url)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

func TestSocket(t *testing.T) {
	path := socketPath(t)
	w := startTestServer(t, oneByIP, onSocket(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o660), info.Mode().Perm())
	status, err := throughSocket(t, path, "http://any.name/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "something is left of how it was made")

	w.stop()
	require.NoError(t, w.ended())
	require.NoFileExists(t, path)
}

func TestSocketInUseIsRefused(t *testing.T) {
	path := socketPath(t)
	w := startTestServer(t, oneByIP, onSocket(path))
	_, err := newTestServer(t, oneByIP, onSocket(path))
	require.ErrorContains(t, err, "--api unix:"+path+": another process listens on this socket; stop it, or use another path")
	status, err := throughSocket(t, w.api.Addr().String(), "http://sluice/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}

func TestUnusedSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	startTestServer(t, oneByIP, onSocket(path))
	status, err := throughSocket(t, path, "http://sluice/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}

func TestReplacedSocketIsNotRemoved(t *testing.T) {
	path := socketPath(t)
	w := startTestServer(t, oneByIP, onSocket(path))
	require.NoError(t, os.Remove(path))
	other, err := listenUnix(path)
	require.NoError(t, err)
	defer other.Close()
	w.Close()
	require.NoError(t, w.ended())
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSocket)
}

func TestInvalidSocketPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	short := filepath.Dir(socketPath(t))
	long := filepath.Join(short, strings.Repeat("d", 108-len(short)-1))
	for address, want := range map[string]string{
		"unix:":                          "unix: without a path; want unix:PATH, such as unix:/run/sluice.sock",
		"unix:" + file:                   "the file exists and is not a socket; use another path, or remove the file",
		"unix:" + link:                   "the file exists and is not a socket",
		"unix:" + dir + "/missing/s":     "no such file or directory",
		"unix:" + long:                   "the path is too long for a socket; use a shorter one",
		"8080":                           `"8080": want HOST:PORT or :PORT, or unix:PATH`,
		"127.0.0.1:http-that-is-no-port": `invalid port "http-that-is-no-port"; want HOST:PORT or :PORT, or unix:PATH`,
		"no-host.invalid:8081":           `"no-host.invalid:8081": no address found for the host "no-host.invalid"; use its IP address`,
	} {
		_, err := newTestServer(t, oneByIP, func(o *Options) { o.API = address })
		require.ErrorContains(t, err, want, address)
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
}
