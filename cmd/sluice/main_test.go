package main

// The tests of this package run the program as users do. They are about all commands. Package serve has no command line in its
// tests, so those that start sluice serve are here too. The other tests of a command are beside it. They promise:
//
//   - Each invalid command line gets an exit status and an error that says what to do, and the text of --help is correct.
//   - replay has the counts of a server.
//   - suggest finds numbers that a replay confirms.
//   - plan has the counts of two replays, and its Markdown is safe for a pull request.
//   - serve reloads and ends on signals. The commands and the Go code of docs/client.md work with it.
//   - compare responds on this machine only.
//   - A failed command leaves no incomplete output.

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestInterruptEndsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for command, exitCode := range map[string]int{"replay": cli.ExitFailed, "suggest": cli.ExitFailed, "plan " + filepath.Join("internal", "plan", "testdata", "plan.old.yaml") + " " + filepath.Join("internal", "plan", "testdata", "plan.new.yaml"): cli.ExitUsage} {
		var out, errs bytes.Buffer
		require.Equal(t, exitCode, cli.Run(ctx, strings.Fields(command), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, clitest.Commands...))
		require.Equal(t, "sluice: interrupted\n", errs.String())
		require.Empty(t, out.String())
	}
}

// TestSecondInterruptEndsABlockedOutput: the output is larger than the pipe, which nobody reads.
func TestSecondInterruptEndsABlockedOutput(t *testing.T) {
	c := exec.Command(os.Args[0], "replay", "--json", "--by", "ip+path", "--top", "100000", "-p", "gcra 1/d", "-p", "gcra 1/d", "-p", "gcra 1/d")
	c.Env = append(os.Environ(), "SLUICE_TEST_MAIN=1")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() })
	_, err = out.Read(make([]byte, 1)) // the output has begun
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	require.Eventually(t, func() bool {
		_ = c.Process.Signal(os.Interrupt)
		return len(ended) > 0
	}, testTimeout, 10*time.Millisecond)
	require.ErrorContains(t, <-ended, "signal: interrupt")
}

func TestVersion(t *testing.T) {
	out := clitest.Ok(t, "", "--version")
	require.Regexp(t, `^sluice \S+\n$`, out)
}

// fullDevice opens a device that refuses all output, as a full disk does.
func fullDevice(t *testing.T) *os.File {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	t.Cleanup(func() { full.Close() })
	return full
}

func TestFullDeviceIsAnError(t *testing.T) {
	full := fullDevice(t)
	log := clitest.Write(t, "access.log", clitest.FourLines)
	plan := "plan " + filepath.Join("internal", "plan", "testdata", "plan.old.yaml") + " " + filepath.Join("internal", "plan", "testdata", "plan.new.yaml") + " " + log + " --max-newly-denied 0"
	for command, exitCode := range map[string]int{
		"replay " + log: cli.ExitFailed, "replay --json " + log: cli.ExitFailed, "replay " + clitest.Write(t, "ok.trace", clitest.OkTrace): cli.ExitFailed, "compare": cli.ExitFailed,
		plan: cli.ExitUsage, plan + " --json": cli.ExitUsage, plan + " --markdown": cli.ExitUsage,
		"": cli.ExitFailed, "--help": cli.ExitFailed, "help": cli.ExitFailed, "help replay": cli.ExitFailed, "--version": cli.ExitFailed,
		"replay --help": cli.ExitFailed, "suggest --help": cli.ExitFailed, "compare -h": cli.ExitFailed, "check --help": cli.ExitFailed, "serve --help": cli.ExitFailed,
		"plan --help": cli.ExitUsage, "help plan": cli.ExitFailed,
		"completion": cli.ExitFailed, "completion --help": cli.ExitFailed, "completion bash": cli.ExitFailed, "completion zsh": cli.ExitFailed, "completion fish": cli.ExitFailed, "completion powershell": cli.ExitFailed,
		"__complete replay --": cli.ExitFailed, "check " + filepath.Join("..", "..", "examples", "limits.yaml"): cli.ExitFailed, "suggest " + log: cli.ExitFailed,
		"replay --check " + clitest.Write(t, "wrong.trace", strings.Replace(clitest.OkTrace, "deny    0    1s", "deny    0    2s", 1)): cli.ExitFailed,
	} {
		var errs bytes.Buffer
		require.Equal(t, exitCode, cli.Run(context.Background(), strings.Fields(command), cli.Streams{In: strings.NewReader(""), Out: full, Err: &errs}, clitest.Commands...), command)
		require.Equal(t, 1, strings.Count(errs.String(), "no space left"), "%s: %s", command, errs.String())
	}
}

// TestFullDeviceLosesOnlyOneOutput: if the tables cannot be written, the chart is still drawn,
// and vice versa.
func TestFullDeviceLosesOnlyOneOutput(t *testing.T) {
	full := fullDevice(t)
	log := clitest.Write(t, "access.log", clitest.FourLines)
	picture := filepath.Join(t.TempDir(), "full.svg")
	require.NoError(t, os.Symlink(full.Name(), picture))
	exitCode, out, errs := clitest.Execute(t, "", "replay", "--out", picture, log)
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Contains(t, errs, "no space left")
	require.Contains(t, out, "access.log: 4 requests")

	var logLines bytes.Buffer
	picture = filepath.Join(t.TempDir(), "a.svg")
	require.Equal(t, cli.ExitFailed, cli.Run(context.Background(), []string{"replay", "--out", picture, log}, cli.Streams{In: strings.NewReader(""), Out: full, Err: &logLines}, clitest.Commands...))
	require.Contains(t, logLines.String(), "no space left")
	require.FileExists(t, picture)
}

func TestMain(m *testing.M) { clitest.Main(m, commands...) }

// testTimeout is for what is only waited for when something is broken.
const testTimeout = time.Minute

// TestReportsWriteShortDurations: a report for people has no duration with nanoseconds, and no
// number of hours where days were written. JSON has exact durations.
func TestReportsWriteShortDurations(t *testing.T) {
	long := regexp.MustCompile(`\d\.\d{4,}[nµm]?s\b|\b\d{3,}h|\dm0s\b`)
	for _, args := range [][]string{
		{"suggest"}, {"suggest", "--per", "7d"}, {"suggest", "-p", "gcra ?/7d"}, {"suggest", "-p", "gcra ?/30d burst=5"}, {"suggest", "--per", "15mins"},
		{"replay"}, {"replay", "-p", "movingwindow 30/7d"}, {"replay", "-p", "gcra 7/m burst=1"}, {"replay", "--reorder", "2d"},
		{"check", "../../examples/limits.yaml"}, {"plan", "../../examples/limits.yaml", "../../examples/limits.new.yaml"},
	} {
		exitCode, out, errs := clitest.Execute(t, "", args...)
		require.Zero(t, exitCode, errs)
		require.NotRegexp(t, long, out, args)
	}
	_, out, _ := clitest.Execute(t, "", "suggest", "--per", "7d")
	require.Contains(t, out, "/7d")
	require.Contains(t, out, " in any 7d")
	_, out, _ = clitest.Execute(t, "", "suggest", "--json")
	require.Contains(t, out, `"longest_wait": "281.691ms"`)
}
