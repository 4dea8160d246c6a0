package readme

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// serving runs the command of a page that contains a text, with replacements for its databases and addresses.
// It returns the line that the server logs when it is ready.
func serving(t *testing.T, program, containing string, replacements ...string) (log string) {
	t.Helper()
	replacements = append(replacements, "go run ./cmd/sluice", program, "sqlite:limits.db", "sqlite:"+filepath.Join(t.TempDir(), "limits.db"))
	line := strings.NewReplacer(replacements...).Replace(commandLines(t, containing)[0])
	words := append(wordsOf(line), "--decision-timeout", "30s") // the machine may be slow
	if strings.Contains(line, "--upstream") {
		words = append(words, "--listen", "127.0.0.1:0")
	}
	command := exec.Command(words[0], words[1:]...)
	command.Dir = root
	t.Cleanup(func() { require.True(t, command.ProcessState.Success()) })
	log = firstLine(t, command, command.StderrPipe)
	require.Contains(t, log, "msg=serving")
	return log
}

// firstLine starts a server, and returns its first line. At the end of the test it interrupts the server.
func firstLine(t *testing.T, command *exec.Cmd, pipe func() (io.ReadCloser, error)) string {
	t.Helper()
	out, err := pipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		_, _ = io.Copy(io.Discard, out)
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// built builds the command, and returns its file. The tests cannot use go run, because it does not forward
// signals.
func built(t *testing.T) string {
	t.Helper()
	needsBuild(t)
	file := filepath.Join(t.TempDir(), "sluice")
	out, err := inWorkspace("go", "build", "-o", file, "./cmd/sluice").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// proxyURL returns the URL of the proxy from the line that a server logs.
func proxyURL(t *testing.T, log string) string {
	t.Helper()
	found := regexp.MustCompile(`proxy=(\S+)`).FindStringSubmatch(log)
	require.NotNil(t, found, log)
	return found[1]
}

func upstream(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestServe(t *testing.T) {
	t.Parallel()
	program := built(t)
	t.Run("in front of a server", func(t *testing.T) { denialIsAsShown(t, program) })
	t.Run("with a file of limits", func(t *testing.T) { fileIsUsed(t, program) })
	t.Run("as an API", func(t *testing.T) { responseIsAsShown(t, program) })
}

// The client gets the response that the page shows, after it has used its burst.
func denialIsAsShown(t *testing.T, program string) {
	shown := regexp.MustCompile("(?s)```console\n\\$ curl -i http://localhost:8080/\n(.*?)\n\n(.*?)```").FindStringSubmatch(readFile(t, root, "docs/command.md"))
	require.NotNil(t, shown)
	head := strings.Split(shown[1], "\n")

	url := proxyURL(t, serving(t, program, `serve --limit "gcra 100/m burst=20" --by ip`, "http://localhost:3000", upstream(t)))
	for i := range 100 { // one unit is refilled every 600 ms
		response, err := http.Get(url)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			require.Equal(t, "hello", string(body))
			continue
		}
		require.GreaterOrEqual(t, i, 20)
		require.Equal(t, head[0], response.Proto+" "+response.Status)
		for _, field := range head[1:] {
			name, value, _ := strings.Cut(field, ": ")
			require.Equal(t, value, response.Header.Get(name), name)
		}
		require.Equal(t, shown[2], string(body))
		return
	}
	t.Fatal("no request was denied")
}

func fileIsUsed(t *testing.T, program string) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	url := proxyURL(t, serving(t, program, "serve --config", "http://localhost:3000", upstream(t), "sqlite:limits.db", store))
	response, err := http.Get(url)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, response.Header.Get("RateLimit-Policy"), `"client";q=20`)

	run := func(command string) string {
		return output(t, strings.Replace(commandLines(t, " "+command+" --store")[0], "sqlite:limits.db", store, 1))
	}
	require.Regexp(t, `(?m)^127\.0\.0\.1 +[01] +20 `, run("keys"))
	require.Equal(t, "rule client: 127.0.0.1 is reset\n", run("reset"))
	require.Contains(t, run("keys"), "no key has a record")
}

// The server answers the request that the page sends with curl.
func responseIsAsShown(t *testing.T, program string) {
	request := regexp.MustCompile(`(?m)^    curl --unix-socket /tmp/sluice.sock -d '(.*)' http://sluice(/\S+)$`).FindStringSubmatch(readFile(t, root, "docs/command.md"))
	require.NotNil(t, request)
	socket := filepath.Join(t.TempDir(), "sluice.sock")
	serving(t, program, "--api unix:", "/tmp/sluice.sock", socket, "redis://localhost:6379", "redis://"+servers.Redis(t).Addr())

	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Post("http://sluice"+request[2], "application/x-www-form-urlencoded", strings.NewReader(request[1]))
	require.NoError(t, err)
	defer response.Body.Close()
	var decision struct {
		Allowed   bool
		Remaining int
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&decision))
	require.True(t, decision.Allowed)
	require.Equal(t, 17, decision.Remaining)
}
