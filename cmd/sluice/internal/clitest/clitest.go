// Package clitest runs commands in tests as users do.
package clitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

const OneRule = "rules: [{name: client, policy: gcra 1/m, by: ip}]\n"

// RequireDocumented requires that the help has the members of the outputs of --json, and no others.
func RequireDocumented(t *testing.T, help string, outputs ...string) {
	t.Helper()
	require.Equal(t, members(help), members(strings.Join(outputs, "")))
}

func members(text string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(text, -1) {
		all[name[1]] = true
	}
	return all
}

// Commands are the commands that the tests of a package run.
var Commands []cli.NewCommand

// Main runs the tests of a package that need these commands. With SLUICE_TEST_MAIN in the environment, the test binary is
// the program.
func Main(m *testing.M, commands ...cli.NewCommand) {
	if os.Getenv("SLUICE_TEST_MAIN") == "" {
		Commands = commands
		os.Exit(m.Run())
	}
	cli.Main(commands...)
}

// Execute runs the command and returns its exit code and what it printed.
func Execute(t *testing.T, stdin string, args ...string) (exitCode int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	exitCode = cli.Run(context.Background(), args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err}, Commands...)
	return exitCode, out.String(), err.String()
}

// Ok runs a command that must succeed and print no error, and returns its standard output.
func Ok(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	exitCode, out, errs := Execute(t, stdin, args...)
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	return out
}

// JSON runs a command that must succeed, and returns the document that it prints.
func JSON[R any](t *testing.T, stdin string, args ...string) (report R) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(Ok(t, stdin, args...)), &report))
	return report
}

func Write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func Gzipped(text string) string {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(text)) // a buffer takes all
	_ = z.Close()
	return zipped.String()
}

func Read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func Golden(t *testing.T, name, got string) {
	t.Helper()
	tracetest.Golden(t, filepath.Join("testdata", name), got)
}

const FourLines = `192.0.2.1 - ann [01/Jan/2000:00:00:00 +0000] "GET /a?x=1 HTTP/1.1" 200 1
192.0.2.1 - ann [01/Jan/2000:00:00:01 +0000] "GET /b HTTP/1.1" 200 1
192.0.2.2 - - [01/Jan/2000:00:00:01 +0000] "GET /a HTTP/1.1" 200 1
192.0.2.1 - ann [01/Jan/2000:00:00:02 +0000] "GET /a HTTP/1.1" 200 1
`

// RequireFailure requires that a command line has the exit status, prints no output, and an error with each of these texts.
func RequireFailure(t *testing.T, args []string, wantCode int, want ...string) {
	t.Helper()
	exitCode, out, errs := Execute(t, "", args...)
	require.Equal(t, wantCode, exitCode, errs)
	require.Empty(t, out)
	requireReadable(t, errs)
	for _, text := range want {
		require.Contains(t, errs, text)
	}
}

// Transcript requires that the command lines of a golden file have an exit status, and print an error and an output. They run in
// a directory with these files. An argument with a space is in single quotation marks.
func Transcript(t *testing.T, name string, files map[string]string) {
	t.Helper()
	golden, err := filepath.Abs(filepath.Join("testdata", name))
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for file, text := range files {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	argument := regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
	tracetest.Answers(t, golden, func(line string) string {
		var args []string
		for _, word := range argument.FindAllString(line, -1) {
			args = append(args, strings.ReplaceAll(word, "'", ""))
		}
		exitCode, out, errs := Execute(t, "", args...)
		requireReadable(t, errs)
		status := strings.TrimSpace(fmt.Sprint(exitCode, " ", errs))
		return strings.TrimRight(status+"\n"+out, "\n")
	})
}

func requireReadable(t *testing.T, errs string) {
	t.Helper()
	require.Less(t, len(errs), 2000)
	for _, hidden := range []string{"accesslog:", "compose:", "strconv"} {
		require.NotContains(t, errs, hidden)
	}
}

const OkTrace = `# Two at once, then one a second.
policy gcra 1/s burst=2
#at key cost -> verdict left retry reset
@0s  a  2    -> ok      0    0s    2s
@0s  a  1    -> deny    0    1s    2s
`

// Fifo makes a named pipe.
func Fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}

// Pipe makes a named pipe into which the text is written.
func Pipe(t *testing.T, text string) string {
	t.Helper()
	path := Fifo(t)
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(path, []byte(text), 0) }()
	t.Cleanup(func() {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that the writer ends even if nobody else reads
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, <-wrote)
	})
	return path
}

// ExampleConfig is the path of a rule file, from the directory of a command.
var ExampleConfig = filepath.Join("..", "..", "..", "..", "examples", "limits.yaml")
