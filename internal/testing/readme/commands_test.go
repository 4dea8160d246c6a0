package readme

import (
	"compress/gzip"
	"io"
	"net"
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
