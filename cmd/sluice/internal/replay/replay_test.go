package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

func TestSampleIsReplayedWithoutArguments(t *testing.T) {
	clitest.Golden(t, "sample.txt", clitest.Ok(t, "", "replay"))
	clitest.Golden(t, "sample.json", clitest.Ok(t, "", "replay", "--json", "--top", "2"))
}

func TestInvalidCommandLines(t *testing.T) {
	gzipped := clitest.Gzipped(clitest.FourLines)
	odd := func(text string) string {
		return "rules: [{name: first, policy: gcra 1/s, by: ip}, {name: odd, policy: gcra 1/s, " + text + "}]"
	}
	clitest.Transcript(t, "failures.txt", map[string]string{
		"access.log": clitest.FourLines, "log.svg": clitest.FourLines, "empty.log": "", "long.log": strings.Repeat("x", 10<<20),
		"iis.log": "#Version: 1.0\n#Fields: date time c-ip\n", "noise": "\x00\x01\x02\n\xff\xfe\x00\n", "utf16.log": "\xff\xfe1\x00\n\x00",
		"a.json":      `{"time":946684800,"ip":"192.0.2.1"}` + "\n",
		"b.json":      `{"at":1}` + "\n",
		"c.json":      `{"at":1,"ip":"192.0.2.1"}` + "\n",
		"pretty.json": "{\n  \"time\": 1,\n  \"ip\": \"192.0.2.1\"\n}\n",
		"array.json":  `[{"time":1000000001,"ip":"192.0.2.1"}]`,
		"a.trace":     "policy gcra 1/s\n@0s a 1\n", "b.trace": "policy gcra 1/s\n@zero a 1\n",
		"cut.gz": gzipped[:5], "bad.gz": strings.Replace(clitest.Gzipped("what is this\n"), "\x0d\x00\x00\x00", "\x0e\x00\x00\x00", 1),
		"limits.yaml": clitest.OneRule, "running.yaml": "rules: [{name: a, policy: inflight 2 ttl=30s}]",
		"colour.yaml": odd("by: colour"), "header.yaml": odd("by: header:x-team"), "headers.yaml": odd("by: header:a+header:b"), "bytes.yaml": odd("cost: bytes"),
	})
}

func TestReplays(t *testing.T) {
	lines := strings.SplitAfter(clitest.FourLines, "\n")
	future := strings.Replace(lines[1], "2000", "2099", 1)
	timed := func(at string) string { return `192.0.2.1 - - [` + at + ` +0100] "GET / HTTP/1.1" 200 1` + "\n" }
	before, after := timed("01/Jan/1970:00:00:00")+timed("01/Jan/1970:00:01:00"), timed("01/Jan/2113:00:00:00")+timed("01/Jan/2113:00:01:00")
	clitest.Transcript(t, "replays.txt", map[string]string{
		"access.log": clitest.FourLines, "limits.yaml": clitest.OneRule, "caddy.json": caddyLines, "none.json": `{"ts":1e9,"level":"info"}`,
		"times.log": before + clitest.FourLines + after, "notimes.log": before + after,
		"future.log": lines[0] + future + strings.Join(lines[1:], ""), "half.log": future + lines[0], "unsorted.log": lines[1] + lines[0] + lines[0] + lines[3] + lines[1] + lines[1],
		"when.json":   `{"when": 946684800, "tenant": "x"}` + "\n" + `{"when": 946684801, "tenant": "x"}` + "\n" + `{"when": 946684802, "tenant": "y"}` + "\n",
		"tenant.json": `{"time":946684800,"tenant":"x"}` + "\n" + `{"time":946684801,"ip":"192.0.2.1"}`,
		"ok.trace":    clitest.OkTrace, "wrong.trace": strings.Replace(clitest.OkTrace, "deny    0    1s", "deny    0    2s", 1),
		"burst.trace": "policy gcra 1/s burst=2\npolicy gcra 1/s\n@0s a 1\n@0s a 1\n", "early.trace": "@0s a 1\n", "show.trace": "show left # [1] {2}\n@0s a 1\n",
		"cee.json":   `@cee: {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7"}`,
		"at.log":     `@ - - [17/May/2015:10:05:03 +0000] "GET /#1 HTTP/1.1" 200 0`,
		"policy.log": `policy 192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`,
		"piped.json": `policy | {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7"}`,
		"show.log":   `show - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`,
	})
}

func TestOtherInvalidCommandLines(t *testing.T) {
	twice, folder := clitest.Pipe(t, clitest.FourLines), filepath.Join(t.TempDir(), "folder.svg")
	require.NoError(t, os.Mkdir(folder, 0o755))
	clitest.RequireFailure(t, []string{"replay", "-p", "gcra 1/s" + strings.Repeat(" x", 1e4)}, cli.ExitUsage, "16384 bytes")
	clitest.RequireFailure(t, []string{"replay", "--out", folder, clitest.Write(t, "access.log", clitest.FourLines)}, cli.ExitUsage, "--out", "is a directory")
	clitest.RequireFailure(t, []string{"replay", twice, twice}, cli.ExitUsage, "same file", "twice")
}

func TestExtremeTimesAndLimitsAreReplayed(t *testing.T) {
	log := `192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] "\x16\x03 " 400 1
192.0.2.1 - - [01/Jan/2100:00:00:00 +0000] "GET http://a:b/%zz HTTP/1.1" 200 1
192.0.2.1 - - [17/Sep/2112:23:53:47 +0000] "-" 400 1
`
	r := rulesOf(t, "rules: [{name: a, policy: gcra 1/s, by: [ip, path]}, {name: b, policy: fixedwindow 1/h, by: [host, method]}]", log)
	require.EqualValues(t, 4, r.Together.Requests)
	for _, policy := range []string{"gcra 1/s", "gcra 1000000000000/s", "tokenbucket 1/d", "tokenbucket 1000000000000/us",
		"fixedwindow 1/us", "fixedwindow 1000000000000/d align=clock", "movingwindow 1/s", "movingwindow 1000000000000/d slots=12"} {
		r := clitest.JSON[JSONReport](t, log, "replay", "--json", "-p", policy, "--out", filepath.Join(t.TempDir(), "a.svg"), "-")
		require.EqualValues(t, 4, r.Policies[0].Requests, policy)
	}
}

func TestPictures(t *testing.T) {
	svg, picture := filepath.Join(t.TempDir(), "REPORT.SVG"), filepath.Join(t.TempDir(), "report.png")
	out := clitest.Ok(t, clitest.FourLines, "replay", "--json", "--out", svg, "-")
	require.True(t, json.Valid([]byte(out)))
	for _, word := range append([]string{"<svg", "allowed", "denied", "time (UTC)", "limited by ip"}, defaultPolicies...) {
		require.Contains(t, string(clitest.Read(t, svg)), word)
	}
	clitest.Ok(t, clitest.FourLines, "replay", "-p", "gcra 1/m", "--out", picture, "-")
	_, err := png.Decode(bytes.NewReader(clitest.Read(t, picture)))
	require.NoError(t, err)
}

// TestLongPoliciesAreDrawnInLines: titles of charts are broken into lines, and always have the
// counts.
func TestLongPoliciesAreDrawnInLines(t *testing.T) {
	draw := func(policy string) string {
		picture := filepath.Join(t.TempDir(), "a.svg")
		clitest.Ok(t, clitest.FourLines, "replay", "-p", policy, "-p", "gcra 1/m", "--out", picture, "-")
		return string(clitest.Read(t, picture))
	}
	three := draw("all(" + strings.Repeat("movingwindow 100/m slots=60; ", 8) + "gcra 1/d)")
	require.Contains(t, three, ">all(movingwindow 100/m slots=60; movingwindow")
	require.Contains(t, three, "1/d): 2 allowed, 2 denied (50.00%)<")
	require.NotContains(t, three, "…")
	require.Contains(t, three, ">gcra 1/m: 2 allowed, 2 denied (50.00%)<")
	plural := draw("all(" + strings.Repeat("movingwindow 100/m slots=60; ", 63) + "gcra 1/d)")
	require.Contains(t, plural, " …<")
	require.Contains(t, plural, ">2 allowed, 2 denied (50.00%)<")
}

// TestTraceIsDetectedByItsFirstWord: in each kind of input.
func TestTraceIsDetectedByItsFirstWord(t *testing.T) {
	trace := "\uFEFF# a remark\n\npolicy\tgcra 1/s\n@0s a 1\n"
	for _, input := range []struct{ stdin, file string }{
		{trace, "-"},
		{clitest.Gzipped(trace), "-"},
		{"", clitest.Write(t, "a.trace.gz", clitest.Gzipped(trace))},
		{"", clitest.Pipe(t, trace)},
	} {
		require.Contains(t, clitest.Ok(t, input.stdin, "replay", input.file), "@0s a 1 -> ok", input.file)
	}
}

// TestTraceInTheHelpIsCorrect: a trace of the help's lines has no differences.
func TestTraceInTheHelpIsCorrect(t *testing.T) {
	_, rest, found := strings.Cut(clitest.Ok(t, "", "replay", "--help"), "is a trace, such as\n\n")
	require.True(t, found)
	trace, _, _ := strings.Cut(rest, "\n\n")
	clitest.Ok(t, trace+"\n", "replay", "--check", "-")
}

// TestInterruptEndsTheWait: an interrupt ends the wait for input on a terminal, and for the
// writer of a pipe.
func TestInterruptEndsTheWait(t *testing.T) {
	silent := clitest.Fifo(t)
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	log := clitest.Write(t, "access.log", clitest.FourLines)
	for _, args := range [][]string{{"-"}, {silent}, {"--config", silent, log}} {
		ctx, interrupt := context.WithCancel(context.Background())
		var out, errs bytes.Buffer
		done := make(chan int)
		go func() {
			done <- cli.Run(ctx, append([]string{"replay"}, args...), cli.Streams{In: typed, Out: &out, Err: &errs}, clitest.Commands...)
		}()
		interrupt()
		require.Equal(t, cli.ExitFailed, <-done)
		require.Contains(t, errs.String(), "interrupted")
	}
	// Unblock the abandoned call of open.
	f, err := os.OpenFile(silent, os.O_RDWR, 0)
	require.NoError(t, err)
	f.Close()
}

// TestIgnoredStandardInputIsReported: without FILE, standard input is ignored. If it has data,
// the user may have forgotten the -.
func TestIgnoredStandardInputIsReported(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	full, err := os.Open(clitest.Write(t, "access.log", clitest.FourLines))
	require.NoError(t, err)
	defer full.Close()
	empty, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer empty.Close()
	for in, hint := range map[*os.File]string{r: "to read standard input, pass -", full: "to read standard input, pass -", empty: ""} {
		var out, errs bytes.Buffer
		require.Zero(t, cli.Run(context.Background(), []string{"replay"}, cli.Streams{In: in, Out: &out, Err: &errs}, clitest.Commands...))
		require.Contains(t, errs.String(), hint)
		require.Equal(t, hint == "", errs.Len() == 0)
		require.Contains(t, out.String(), sample.Name)
	}
	var out, errs bytes.Buffer
	require.Zero(t, cli.Run(context.Background(), []string{"replay", "-"}, cli.Streams{In: full, Out: &out, Err: &errs}, clitest.Commands...))
	require.Empty(t, errs.String())
}

// TestStandardInputIsComparedWithFiles: standard input can be a file that is also named.
func TestStandardInputIsComparedWithFiles(t *testing.T) {
	log := clitest.Write(t, "access.svg", clitest.FourLines)
	for want, args := range map[string][]string{
		"same file":  {"replay", "-", log},
		"twice":      {"replay", log, "-"},
		"log itself": {"replay", "--out", log, "-"},
	} {
		in, err := os.Open(log)
		require.NoError(t, err)
		var out, errs bytes.Buffer
		require.Equal(t, cli.ExitUsage, cli.Run(t.Context(), args, cli.Streams{In: in, Out: &out, Err: &errs}, clitest.Commands...))
		require.NoError(t, in.Close())
		require.Contains(t, errs.String(), want)
		require.Equal(t, clitest.FourLines, string(clitest.Read(t, log)))
	}
}

const caddyLines = `{"level":"info","ts":946684800.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a","headers":{"X-Key":["k1"],"Accept":["a","b"]}},"status":200}
{"level":"error","ts":946684801,"logger":"tls","msg":"no certificate"}
{"level":"info","ts":946684801.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/b","headers":{"X-Key":["k1"]}},"status":200}
{"level":"info","ts":946684802.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.2","method":"GET","uri":"/b","headers":{}},"status":200}
`

func TestMain(m *testing.M) { clitest.Main(m, Command) }
