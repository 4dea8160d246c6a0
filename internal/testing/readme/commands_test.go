package readme

import (
	"bufio"
	"compress/gzip"
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
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// commandLines returns the go run commands of the pages that contain a text.
func commandLines(t *testing.T, containing string) (lines []string) {
	for _, m := range regexp.MustCompile(`(?m)^(?:    |\$ )(go run [^#\n]*)`).FindAllStringSubmatch(pagesWithCommands(t), -1) {
		if strings.Contains(m[1], containing) {
			lines = append(lines, strings.TrimSpace(m[1]))
		}
	}
	require.NotEmpty(t, lines)
	return lines
}

// needsBuild skips a test with -short, because building a program takes long.
func needsBuild(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips tests that build a program")
	}
}

// inWorkspace returns a command that runs at the root of the repository. It uses the workspace there,
// even if the tests run without one.
func inWorkspace(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(name, arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "GOWORK=")
	return command
}

// wordsOf returns the words of a command line, without quotation marks.
func wordsOf(line string) []string {
	words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1)
	for i := range words {
		words[i] = strings.Trim(words[i], `"`)
	}
	return words
}

// output runs a command line at the root of the repository, and returns its standard output.
func output(t *testing.T, line string) string {
	words := wordsOf(line)
	command := inWorkspace(words[0], words[1:]...)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, errors.String())
	}
	return string(out)
}

// The limiter returns the errors of the connections. Without the line of openRedis that turns its log
// off, go-redis prints each of them too.
func TestProgramPrintsOneErrorIfRedisIsDown(t *testing.T) {
	needsBuild(t)
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // from now on the address refuses connections
	command := inWorkspace("go", "run", "./examples/quota", "-store", "redis://"+listener.Addr().String())
	var printed strings.Builder
	command.Stderr = &printed
	require.Error(t, command.Run())
	require.Regexp(t, `\Aquota: .*connection refused.*\nexit status 1\n\z`, printed.String())
}

// ownDatabases replaces the databases that the pages name, which may be in use, by new ones.
func ownDatabases(t *testing.T, store string) *strings.Replacer {
	replacements := []string{"quota.db", filepath.Join(t.TempDir(), "quota.db")}
	switch store {
	case "redis":
		replacements = append(replacements, "redis://localhost:6379", "redis://"+servers.Redis(t).Addr())
	case "postgres":
		replacements = append(replacements, "postgres://postgres@localhost/postgres", servers.Postgres(t).DSN())
	}
	return strings.NewReplacer(replacements...)
}

// terminals returns the output that the recipe for stores shows in two terminals.
func terminals(t *testing.T) (first, second string) {
	blocks := regexp.MustCompile("(?s)```console\n\\$ go run [^\n]*\n(.*?)```").FindAllStringSubmatch(readFile(t, root, "docs/recipes.md"), -1)
	require.Len(t, blocks, 2)
	return withoutTimes(blocks[0][1]), withoutTimes(blocks[1][1])
}

func withoutTimes(s string) string {
	return regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`).ReplaceAllString(s, "SOON")
}

func TestGitIgnoresTheFilesThatTheCommandsCreate(t *testing.T) {
	ignored := strings.Split(readFile(t, root, ".gitignore"), "\n")
	files := regexp.MustCompile(`sqlite:([\w.]+)|--out (\S+)`).FindAllStringSubmatch(pagesWithCommands(t), -1)
	require.NotEmpty(t, files)
	for _, file := range files {
		if database := file[1]; database != "" {
			require.Subset(t, ignored, []string{"/" + database, "/" + database + "-shm", "/" + database + "-wal"})
			continue
		}
		require.Contains(t, ignored, "/"+file[2])
	}
}

func TestTwoTerminalsShareAQuota(t *testing.T) {
	t.Parallel()
	needsBuild(t)
	first, second := terminals(t)
	for _, store := range []string{"sqlite", "postgres", "redis"} {
		t.Run(store, func(t *testing.T) {
			command := ownDatabases(t, store).Replace(commandLines(t, "-store "+store+":")[0])
			require.Equal(t, first, withoutTimes(output(t, command)))
			require.Equal(t, second, withoutTimes(output(t, command)))

			bob := strings.Replace(command, "-key ann -calls 3", "-key bob -calls 20", 1)
			require.NotEqual(t, command, bob)
			var both [2]string
			var wg sync.WaitGroup
			for i := range both {
				wg.Go(func() { both[i] = output(t, bob) })
			}
			wg.Wait()
			answers := both[0] + both[1]
			require.Equal(t, 5, strings.Count(answers, "allowed"), answers)
			require.Equal(t, 35, strings.Count(answers, "denied by rule customer"), answers)
		})
	}
}

// examples/start has the limits of the README. With a database, they hold across its runs.
func TestStartKeepsItsLimitsInADatabase(t *testing.T) {
	t.Parallel()
	needsBuild(t)
	line := "go run ./examples/start " + servers.Postgres(t).DSN()
	require.Equal(t, "welcome\nwelcome\ndenied by rule address\n", output(t, line))
	require.Equal(t, strings.Repeat("denied by rule address\n", 3), output(t, line))
}

// ownFiles copies the sample log to a new directory. names replaces the names of logs and pictures by files
// there.
func ownFiles(t *testing.T) (dir string, names *strings.Replacer) {
	t.Helper()
	dir = t.TempDir()
	compressed, err := os.Open(filepath.Join(root, "cmd/sluice/internal/sample/access.log.gz"))
	require.NoError(t, err)
	defer compressed.Close()
	plain, err := gzip.NewReader(compressed)
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "access.log"), text, 0o600))
	return dir, strings.NewReplacer(
		"access.log.1.gz", "cmd/sluice/internal/sample/access.log.gz",
		"access.log", filepath.Join(dir, "access.log"),
		"report.svg", filepath.Join(dir, "report.svg"),
		"curve.svg", filepath.Join(dir, "curve.svg"))
}

func TestReplayCommandsWork(t *testing.T) {
	t.Parallel()
	needsBuild(t)
	dir, own := ownFiles(t)
	for _, line := range commandLines(t, "./cmd/sluice") {
		if !strings.Contains(line, "--store") && !strings.Contains(line, " serve ") && !strings.HasSuffix(line, " compare") { // TestServe runs those with a store; the others run until a signal
			require.NotEmpty(t, output(t, own.Replace(line)))
		}
	}
	lines := regexp.MustCompile(`(?m)^    (sluice .*)$`).FindAllStringSubmatch(readFile(t, root, "docs/policies.md"), -1)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		command := strings.Replace(own.Replace(line[1]), "limits.yaml", "examples/limits.yaml", 1)
		require.NotEmpty(t, output(t, "go run ./cmd/"+command))
	}
	require.FileExists(t, filepath.Join(dir, "report.svg"))
	require.FileExists(t, filepath.Join(dir, "curve.svg"))
}

func TestPlanPrintsTheShownOutput(t *testing.T) {
	t.Parallel()
	needsBuild(t)
	lines := commandLines(t, " plan ")
	line := lines[len(lines)-1]
	_, shown, found := strings.Cut(readFile(t, root, "docs/command.md"), "    "+line+"\n\n```text\n")
	require.True(t, found, "the output follows the command")
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, output(t, line), "\n"+shown+"\n")
}

func TestTraceInTheRecipesPasses(t *testing.T) {
	needsBuild(t)
	trace := regexp.MustCompile(`(?m)^    policy .*\n(?:(?:    .*)?\n)*`).FindString(readFile(t, root, "docs/recipes.md"))
	require.NotEmpty(t, trace)
	file := filepath.Join(t.TempDir(), "recipe.trace")
	check := func(trace string) error {
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(trace, "\n    ", "\n")[4:]), 0o600))
		return inWorkspace("go", "run", "./cmd/sluice", "replay", "--check", file).Run()
	}
	require.NoError(t, check(trace))
	require.Error(t, check(strings.Replace(trace, "deny", "ok", 1)))
}

// A page shows how to install the command. The line must work with the workspace and without.
func TestInstalledCommandWorks(t *testing.T) {
	t.Parallel()
	needsBuild(t)
	line := regexp.MustCompile(`(?m)^    (go install .*)$`).FindStringSubmatch(readFile(t, root, "docs/command.md"))
	require.NotNil(t, line)
	words := strings.Fields(line[1])
	for _, workspace := range []string{"", "off"} {
		bin := t.TempDir()
		for _, words := range [][]string{words, {filepath.Join(bin, "sluice"), "check", "examples/limits.yaml"}} {
			command := inWorkspace(words[0], words[1:]...)
			command.Env = append(command.Env, "GOWORK="+workspace, "GOBIN="+bin)
			out, err := command.CombinedOutput()
			require.NoError(t, err, "GOWORK=%s: %s", workspace, out)
		}
	}
}

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
	t.Run("in front of a server", func(t *testing.T) { burstIsLimited(t, program) })
	t.Run("with a file of limits", func(t *testing.T) { fileIsUsed(t, program) })
	t.Run("as an API", func(t *testing.T) { responseIsAsShown(t, program) })
}

// A test of cmd/sluice compares the whole response with docs/client.md.
func burstIsLimited(t *testing.T, program string) {
	url := proxyURL(t, serving(t, program, `serve --limit "gcra 100/m burst=20" --by ip`, "http://localhost:3000", upstream(t)))
	for i := range 100 { // one unit is refilled every 600 ms
		response, err := http.Get(url)
		require.NoError(t, err)
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			require.GreaterOrEqual(t, i, 20)
			return
		}
		require.Equal(t, http.StatusOK, response.StatusCode)
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
