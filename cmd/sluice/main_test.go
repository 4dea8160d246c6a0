package main

// The tests of this package run the program as users do. They are about all commands. Package serve has no command line in its
// tests, so those that start sluice serve are here too. The other tests of a command are beside it. They promise:
//
//   - Each invalid command line gets an exit status and an error that says what to do, and the text of --help is correct.
//   - replay has the counts of a server.
//   - suggest finds numbers that a replay confirms.
//   - plan has the counts of two replays, and its Markdown is safe for a pull request.
//   - serve reloads and ends on signals. The commands of docs/client.md work with it. Package readme tests its code.
//   - compare responds on this machine only.
//   - A failed command leaves no incomplete output.

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
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

const planOfSample = "plan internal/plan/testdata/plan.old.yaml internal/plan/testdata/plan.new.yaml"

func TestInterruptEndsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for command, exitCode := range map[string]int{"replay": cli.ExitFailed, "suggest": cli.ExitFailed, planOfSample: cli.ExitUsage} {
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
	require.Regexp(t, `^sluice \S+\n$`, clitest.Ok(t, "", "--version"))
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
	plan := planOfSample + " " + log + " --max-newly-denied 0"
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
		require.NotRegexp(t, long, clitest.Ok(t, "", args...), args)
	}
	require.Regexp(t, `(?s)/7d.* in any 7d`, clitest.Ok(t, "", "suggest", "--per", "7d"))
	require.Contains(t, clitest.Ok(t, "", "suggest", "--json"), `"longest_wait": "281.691ms"`)
}

// twoClients has two lines of one client and one of another.
var twoClients = []string{
	`203.0.113.7 - - [29/Mar/2026:00:59:50 +0000] "GET / HTTP/1.1" 200 12`,
	`198.51.100.4 - - [29/Mar/2026:00:59:51 +0000] "GET / HTTP/1.1" 200 12`,
	`203.0.113.7 - - [29/Mar/2026:00:59:52 +0000] "GET / HTTP/1.1" 200 12`,
}

const rulesByIP = "trusted: []\nrules: [{name: client, policy: gcra 1/m, by: ip}]\n"

// commandsByIP returns every command line that limits the requests of a log by their clients.
func commandsByIP(t *testing.T, log string) map[string][]string {
	rules := clitest.Write(t, "limits.yaml", rulesByIP)
	stricter := clitest.Write(t, "limits.new.yaml", strings.Replace(rulesByIP, "1/m", "1/h", 1))
	return map[string][]string{
		"replay":           {"replay", "-p", "gcra 1/m", "--by", "ip", log},
		"replay --config":  {"replay", "--config", rules, log},
		"suggest":          {"suggest", log},
		"suggest --config": {"suggest", "--config", rules, log},
		"plan":             {"plan", rules, stricter, log},
	}
}

func TestClientsThatAreNoAddressAreCounted(t *testing.T) {
	log := clitest.Write(t, "access.log", strings.Join(twoClients, "\n")+"\n"+strings.Replace(twoClients[2], "203.0.113.7", "client.example.net", 1))
	for name, args := range commandsByIP(t, log) {
		require.Contains(t, clitest.Ok(t, "", args...), `1 of 4 requests with a client that is no address; the first is `+log+
			`:4: the client "client.example.net" is no address: "client.example.net - - [29/Mar/2026:00:59:52 +0000] \"GET /`, name)
		require.Contains(t, clitest.Ok(t, "", append(args, "--json")...), `"no_address": 1`, name)
	}
	require.Contains(t, clitest.Ok(t, "", append(commandsByIP(t, log)["plan"], "--markdown")...), "which has problems")
	require.NotContains(t, clitest.Ok(t, "", "replay", "--by", "path", log), "no address", "no key has a client")
}

func TestMostClientsMustBeAddresses(t *testing.T) {
	for name, line := range map[string]string{
		"an unknown prefix": "web-1 nginx" + strings.TrimPrefix(twoClients[0], "203.0.113.7 -"),
		"grep":              "access.log.1:" + twoClients[0],
		"a host name":       strings.Replace(twoClients[0], "203.0.113.7", "client.example.net", 1),
		"JSON":              `{"time":"2026-03-29T00:59:50Z","client":"web-1","status":200}`,
	} {
		log := clitest.Write(t, "access.log", strings.Repeat(line+"\n", 3)+strings.Join(twoClients[:2], "\n"))
		for command, args := range commandsByIP(t, log) {
			exitCode, out, errs := clitest.Execute(t, "", args...)
			require.NotZero(t, exitCode, command)
			require.Empty(t, out)
			require.Contains(t, errs, "3 of 5 requests have a client that is no address; the first is "+log+":1: the client ", "%s: %s", name, command)
			require.Contains(t, errs, "if the lines have a prefix, remove it; if the server logs host names, configure it to log addresses (Apache: HostnameLookups Off")
			require.Equal(t, name == "JSON", strings.Contains(errs, "--key-field"), command)
		}
		clitest.Ok(t, "", "replay", "--by", "path", log)
	}
	log := clitest.Write(t, "access.log", strings.Repeat(`{"time":"2026-03-29T00:59:50Z","client":"web-1","status":200}`+"\n", 3))
	require.NotContains(t, clitest.Ok(t, "", "replay", "--key-field", "client", log), "no address")
	require.Contains(t, clitest.Ok(t, "", "replay", "--by", "user", log), "3 of 3 requests with a client that is no address", "it replaces the user")
}

// Characters that a terminal interprets, or that XML forbids, are escaped in the names of files.
func TestNamesOfFilesAreEscaped(t *testing.T) {
	name := "a\x1b[31m\x01\xff<b>&\n\"x\""
	log := clitest.Write(t, name+".log", clitest.FourLines+"no request\n")
	rules := clitest.Write(t, name+".yaml", "trusted: []\nrules: [{name: client, policy: gcra 1/m, by: ip}]\n")
	shown := `a\x1b[31m\x01\xff<b>&\n"x".log`
	picture := filepath.Join(t.TempDir(), "a.svg")
	for _, args := range [][]string{
		{"replay", "-p", "gcra 1/m"},
		{"replay", "--config", rules},
		{"suggest", "-p", "gcra ?/m"},
		{"suggest", "--config", rules},
	} {
		out := clitest.Ok(t, "", append(args, "--out", picture, log)...)
		require.NotContains(t, out, "\x1b")
		require.Contains(t, out, shown+": 4 requests")
		require.Contains(t, out, shown+":5: no [time]")
		svg, err := os.Open(picture)
		require.NoError(t, err)
		defer svg.Close()
		for d := xml.NewDecoder(svg); err == nil; {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, args)
	}
}

// build builds the program without C.
func build(t *testing.T, program string, env ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips tests that build the program")
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), append(env, "CGO_ENABLED=0")...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestWithoutCgoOnlySQLiteIsMissing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sluice")
	build(t, program)
	serve := exec.Command(program, "serve", "--limit", "gcra 1/s", "--store", "sqlite:limits.db")
	out, err := serve.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "sluice: --store sqlite:limits.db: this program was built with CGO_ENABLED=0, so it has no SQLite; "+
		"build it with CGO_ENABLED=1 and a C compiler, or use another store\n", string(out))
	require.Equal(t, 2, serve.ProcessState.ExitCode())

	out, err = exec.Command(program, "check", filepath.Join("..", "..", "examples", "limits.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestProgramCompilesFor32Bits finds constants that are too large for an int of 32 bits.
func TestProgramCompilesFor32Bits(t *testing.T) { build(t, os.DevNull, "GOOS=linux", "GOARCH=386") }

// TestProgramsHaveTheTimeZones: not every system has the tz database, and its users cannot compile it in.
func TestProgramsHaveTheTimeZones(t *testing.T) {
	for program, platform := range map[string][]string{".": nil, "./internal/compare/wasm": {"GOOS=js", "GOARCH=wasm"}} {
		list := exec.Command("go", "list", "-deps", program)
		list.Env = append(os.Environ(), platform...)
		out, err := list.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, strings.Fields(string(out)), "time/tzdata", program)
	}
}
