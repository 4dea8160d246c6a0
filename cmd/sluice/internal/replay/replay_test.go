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
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
)

func TestSampleIsReplayedWithoutArguments(t *testing.T) {
	exitCode, out, errs := clitest.Execute(t, "", "replay")
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	clitest.Golden(t, "sample.txt", out)
	clitest.Golden(t, "sample.json", clitest.Ok(t, "", "replay", "--json", "--top", "2"))
}

func counts(t *testing.T, out string) (requests, denied, keys int64) {
	t.Helper()
	var r JSONReport
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r.Policies[0].Requests, r.Policies[0].Denied, r.Policies[0].Keys
}

func TestJSONLinesWithOddNames(t *testing.T) {
	log := `{"when": 946684800, "tenant": "x"}
{"when": 946684801, "tenant": "x"}
{"when": 946684802, "tenant": "y"}
`
	out := clitest.Ok(t, log, "replay", "--json", "-p", "gcra 1/m", "--time-field", "when", "--key-field", "tenant", "-")
	requests, denied, keys := counts(t, out)
	require.EqualValues(t, 3, requests)
	require.EqualValues(t, 1, denied)
	require.EqualValues(t, 2, keys)
}

// TestInvalidCommandLinesOfReplay: each invalid command line gets the exit status and an error
// that says what to do.
func TestInvalidCommandLinesOfReplay(t *testing.T) {
	dir := t.TempDir()
	log := clitest.Write(t, "access.log", clitest.FourLines)
	json := clitest.Write(t, "a.json", `{"time":946684800,"ip":"192.0.2.1"}`+"\n")
	trace := clitest.Write(t, "a.trace", "policy gcra 1/s\n@0s a 1\n")
	drawn := clitest.Write(t, "log.svg", clitest.FourLines)
	twice := clitest.Pipe(t, clitest.FourLines)
	folder := filepath.Join(dir, "folder.svg")
	require.NoError(t, os.Mkdir(folder, 0o755))
	clitest.RequireFailures(t, map[string]clitest.Failure{
		"unknown command":             {[]string{"reply"}, 2, []string{`"reply"`, "serve, keys, reset or completion; see sluice --help"}},
		"unknown flag":                {[]string{"replay", "--polcy"}, 2, []string{"unknown flag: --polcy, did you mean --policy?; see sluice replay --help"}},
		"unknown algorithm":           {[]string{"replay", "-p", "grca 10/m"}, 2, []string{"grca", "did you mean gcra", "\n  grca 10/m\n  ^^^^\n"}},
		"policy in flight":            {[]string{"replay", "-p", "inflight 2 ttl=30s", log}, 2, []string{"--policy: inflight limits requests at the same time, and access logs do not show when a request ends", "\n  inflight 2 ttl=30s\n  ^^^^^^^^\n"}},
		"policy not to show":          {[]string{"replay", "-p", "gcra\x1b[2J 1/s"}, 2, []string{`"gcra\x1b[2J"`, "column 1"}},
		"very long policy":            {[]string{"replay", "-p", "gcra 1/s" + strings.Repeat(" x", 1e4)}, 2, []string{"16384 bytes"}},
		"unknown field":               {[]string{"replay", "--by", "colour"}, 2, []string{`--by: no field "colour"`, "ip, user"}},
		"header in a log":             {[]string{"replay", "--by", "ip+header:X-Key", log}, 2, []string{`--by "ip+header:X-Key"`, "--key-field, and write key in --by"}},
		"field after a plus":          {[]string{"replay", "--by", "ip+"}, 2, []string{`--by: "ip+": a field is missing before or after a +`}},
		"key without a field":         {[]string{"replay", "--by", "key", log}, 2, []string{"--key-field"}},
		"field without a key":         {[]string{"replay", "--by", "ip", "--key-field", "k", log}, 2, []string{"--by ip", "--key-field", "ip+key"}},
		"both not of JSON":            {[]string{"replay", "--time-field", "t", "--key-field", "k", log}, 1, []string{"leave --time-field and --key-field out"}},
		"member nobody has":           {[]string{"replay", "--key-field", "tenantt", json}, 1, []string{"a.json", `"tenantt"`, "--key-field"}},
		"time nobody has":             {[]string{"replay", "--time-field", "t", json}, 1, []string{"a.json:1", `no member "t" in the JSON object`, "--time-field wants the name of the member that holds the time"}},
		"time that is a duration":     {[]string{"replay", "--time-field", "at", clitest.Write(t, "c.json", `{"at":1,"ip":"192.0.2.1"}`+"\n")}, 1, []string{"c.json:1: a number below 100000000 is a duration, not a time"}},
		"no usual time":               {[]string{"replay", clitest.Write(t, "b.json", `{"at":1}`+"\n")}, 1, []string{"b.json:1", "no time in the JSON object", "with --time-field"}},
		"empty field":                 {[]string{"replay", "--time-field", "", json}, 2, []string{"--time-field is empty"}},
		"no picture":                  {[]string{"replay", "--out=", log}, 2, []string{"--out is empty"}},
		"unknown picture":             {[]string{"replay", "--out", "a.gif"}, 2, []string{"a.gif", ".svg or .png"}},
		"nowhere to draw":             {[]string{"replay", "--out", filepath.Join(dir, "no", "a.svg"), log}, 2, []string{"--out", "no such", "folder"}},
		"draw on a folder":            {[]string{"replay", "--out", folder, log}, 2, []string{"--out", "is a directory"}},
		"negative top":                {[]string{"replay", "--top", "-1"}, 2, []string{"--top", "-1", "whole number of at least 0"}},
		"octal top":                   {[]string{"replay", "--top", "010"}, 2, []string{"--top", "010", "whole number of at least 0, such as 10"}},
		"reorder of no time":          {[]string{"replay", "--reorder", "5"}, 2, []string{"--reorder", "30s"}},
		"missing file":                {[]string{"replay", filepath.Join(dir, "no.log")}, 2, []string{"no.log", "sample"}},
		"directory":                   {[]string{"replay", dir}, 2, []string{dir, "directory"}},
		"stdin twice":                 {[]string{"replay", "-", "-"}, 2, []string{"once"}},
		"help on nothing":             {[]string{"help", "bogus"}, 2, []string{`"bogus"`, "serve, keys, reset or completion; see sluice --help"}},
		"unknown shell":               {[]string{"completion", "bsh"}, 2, []string{`"bsh"`, "want bash, fish, powershell or zsh"}},
		"flag twice":                  {[]string{"replay", "--by", "ip", "--by", "user"}, 2, []string{"--by", "the flag is given twice; give it once"}},
		"picture over the log":        {[]string{"replay", "--out", drawn, drawn}, 2, []string{"is the log itself", "name another file"}},
		"pipe twice":                  {[]string{"replay", twice, twice}, 2, []string{"same file", "twice"}},
		"file twice":                  {[]string{"replay", log, filepath.Dir(log) + "/./access.log"}, 2, []string{"same file", "twice"}},
		"trace and log":               {[]string{"replay", trace, log}, 2, []string{"a.trace is a trace", "access.log is a log"}},
		"check of a log":              {[]string{"replay", "--check", log}, 2, []string{"--check", "access.log"}},
		"check under others":          {[]string{"replay", "--check", "-p", "gcra 1/s", trace}, 2, []string{"--check", "-p"}},
		"JSON and picture of a trace": {[]string{"replay", "--json", "--out", "a.svg", trace}, 2, []string{"--out is for access logs", "a.trace"}},
		"trace with an error":         {[]string{"replay", clitest.Write(t, "b.trace", "policy gcra 1/s\n@zero a 1\n")}, 1, []string{"b.trace:2", "zero"}},
		"empty log":                   {[]string{"replay", clitest.Write(t, "empty.log", "")}, 1, []string{"empty.log", "the log is empty", "name another log"}},
		"binary log":                  {[]string{"replay", clitest.Write(t, "noise", string([]byte{0, 1, 2, '\n', 255, 254, 0, '\n'}))}, 1, []string{"not log lines", "common", "JSON"}},
		"one endless line":            {[]string{"replay", clitest.Write(t, "long.log", strings.Repeat("x", 10<<20))}, 1, []string{"not log lines", "long.log:1"}},
		"hardly any gzip":             {[]string{"replay", clitest.Write(t, "cut.gz", clitest.Gzipped(clitest.FourLines)[:5])}, 1, []string{"cut.gz", "EOF"}},
		"damaged gzip":                {[]string{"replay", clitest.Write(t, "bad.gz", strings.Replace(clitest.Gzipped("what is this\n"), "\x0d\x00\x00\x00", "\x0e\x00\x00\x00", 1))}, 1, []string{"bad.gz:1", "bad.gz is a damaged gzip file", "copy it again"}},
		"UTF-16":                      {[]string{"replay", clitest.Write(t, "utf16.log", "\xff\xfe1\x00\n\x00")}, 1, []string{"utf16.log is UTF-16 text", "iconv"}},
		"JSON on several lines":       {[]string{"replay", clitest.Write(t, "pretty.json", "{\n  \"time\": 1,\n  \"ip\": \"192.0.2.1\"\n}\n")}, 1, []string{"pretty.json:1", "jq -c ."}},
		"JSON array":                  {[]string{"replay", clitest.Write(t, "array.json", `[{"time":1000000001,"ip":"192.0.2.1"}]`)}, 1, []string{"array.json:1", "jq -c '.[]'"}},
	})
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
		exitCode, out, errs := clitest.Execute(t, log, "replay", "--json", "-p", policy, "--out", filepath.Join(t.TempDir(), "a.svg"), "-")
		require.Zero(t, exitCode, "%s: %s", policy, errs)
		requests, _, _ := counts(t, out)
		require.EqualValues(t, 4, requests)
	}
}

func TestTimesThatPoliciesCannotTellApartAreSkipped(t *testing.T) {
	line := func(at string) string { return `192.0.2.1 - - [` + at + ` +0100] "GET / HTTP/1.1" 200 1` + "\n" }
	before, after := line("01/Jan/1970:00:00:00")+line("01/Jan/1970:00:01:00"), line("01/Jan/2113:00:00:00")+line("01/Jan/2113:00:01:00")
	for _, args := range [][]string{{"-p", "gcra 1/30s"}, {"--config", clitest.Write(t, "limits.yaml", clitest.OneRule)}} {
		args = append([]string{"replay", "-"}, args...)
		out := clitest.Ok(t, before+clitest.FourLines+after, args...)
		require.Contains(t, out, "4 of 8 lines skipped because they are not log lines; the first is standard input:1: time before 1970 or after September 2112: ")
		exitCode, _, errs := clitest.Execute(t, before+after, args...)
		require.Equal(t, 1, exitCode)
		require.Contains(t, errs, "4 of 4 lines are not log lines")
		require.Contains(t, errs, "standard input:1: time before 1970 or after September 2112: ")
	}
}

func TestReadErrorEndsTheReplay(t *testing.T) {
	var out, errs bytes.Buffer
	in := iotest.TimeoutReader(strings.NewReader(strings.Repeat(clitest.FourLines, 1000)))
	require.Equal(t, cli.ExitFailed, cli.Run(context.Background(), []string{"replay", "-"}, cli.Streams{In: in, Out: &out, Err: &errs}, clitest.Commands...))
	require.Contains(t, errs.String(), "standard input")
	require.Empty(t, out.String())
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

// TestLongPoliciesAreNumbered: tables would be too wide with long specs, so they have numbers
// instead.
func TestLongPoliciesAreNumbered(t *testing.T) {
	long := "all(" + strings.Repeat("gcra 10/s; ", 9) + "gcra 1/d)"
	out := clitest.Ok(t, clitest.FourLines, "replay", "-p", long, "-p", "gcra 1/m", "-")
	require.Contains(t, out, "\n\n  #1  "+long+"\n  #2  gcra 1/m\n\n  policy  requests")
	require.Regexp(t, `(?m)^  #2 +4 +2 +2 +50.00% .* 1/m +2 +59s$`, out)
	require.Regexp(t, `(?m)^  denied most, by ip +#1 +#2$`, out)
	require.Equal(t, 1, strings.Count(out, long))
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

func TestTraceIsPrintedWithItsResults(t *testing.T) {
	path := clitest.Write(t, "burst.trace", "policy gcra 1/s burst=2\npolicy gcra 1/s\n@0s a 1\n@0s a 1\n")
	out := clitest.Ok(t, "", "replay", path)
	require.Equal(t, `policy gcra 1/s burst=2
policy gcra 1/s
@0s a 1 -> ok 1 0s 1s | ok   0 0s 1s
@0s a 1 -> ok 0 0s 2s | deny 0 1s 1s
`, out)
}

func TestTraceUnderOtherPolicies(t *testing.T) {
	out := clitest.Ok(t, clitest.OkTrace, "replay", "-p", "gcra 2/s", "-p", "fixedwindow 1/s", "-")
	require.Contains(t, out, "policy gcra 2/s\npolicy fixedwindow 1/s\n")
	require.NotContains(t, out, "burst=2")
	require.Contains(t, out, "|")
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

// TestLogsThatBeginLikeATraceAreReplayed: with each word that can begin a trace.
func TestLogsThatBeginLikeATraceAreReplayed(t *testing.T) {
	for _, log := range []string{
		`@cee: {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7"}`,
		`@ - - [17/May/2015:10:05:03 +0000] "GET /#1 HTTP/1.1" 200 0`,
		`policy 192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`,
		`policy | {"time":"2015-05-17T10:05:03Z","ip":"192.0.2.7"}`,
		`show - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`,
	} {
		require.Contains(t, clitest.Ok(t, log+"\n", "replay", "--by", "everything", "-p", "gcra 1/m", "-"), "1 request")
	}
	for _, trace := range []string{"@0s a 1\n", "show left # [1] {2}\n@0s a 1\n"} {
		exitCode, _, errs := clitest.Execute(t, trace, "replay", "-")
		require.Equal(t, 1, exitCode)
		require.Contains(t, errs, "a trace begins with policy SPEC")
	}
}

// TestGzipCutShortIsReported: the part before the cut is replayed.
func TestGzipCutShortIsReported(t *testing.T) {
	cut := clitest.Gzipped(clitest.FourLines)
	cut = cut[:len(cut)-4]
	for name, args := range map[string][]string{"file": {clitest.Write(t, "cut.gz", cut)}, "stdin": {"-"}, "pipe": {clitest.Pipe(t, cut)}} {
		exitCode, out, errs := clitest.Execute(t, cut, append([]string{"replay", "--json", "-p", "gcra 1/m"}, args...)...)
		require.Zero(t, exitCode, "%s: %s", name, errs)
		requests, _, _ := counts(t, out)
		require.EqualValues(t, 4, requests, name)
		require.Contains(t, out, `"problem": "unexpected EOF"`, name)
	}
	exitCode, out, errs := clitest.Execute(t, cut, "replay", "-")
	require.Zero(t, exitCode, errs)
	require.Contains(t, out, "standard input ends early: unexpected EOF")
}

// TestTraceInTheHelpIsCorrect: a trace of the help's lines has no differences.
func TestTraceInTheHelpIsCorrect(t *testing.T) {
	_, help, _ := clitest.Execute(t, "", "replay", "--help")
	_, rest, found := strings.Cut(help, "is a trace, such as\n\n")
	require.True(t, found)
	trace, _, _ := strings.Cut(rest, "\n\n")
	exitCode, out, errs := clitest.Execute(t, trace+"\n", "replay", "--check", "-")
	require.Zero(t, exitCode, out+errs)
	exitCode, _, _ = clitest.Execute(t, strings.Replace(trace, "ok", "deny", 1)+"\n", "replay", "--check", "-")
	require.Equal(t, cli.ExitFailed, exitCode)
}

func TestFailedReplayLeavesThePictureAsItWas(t *testing.T) {
	old, none := clitest.Write(t, "old.svg", "old"), filepath.Join(t.TempDir(), "none.svg")
	for _, picture := range []string{old, none} {
		exitCode, _, _ := clitest.Execute(t, "no log", "replay", "--out", picture, "-")
		require.Equal(t, cli.ExitFailed, exitCode)
	}
	require.Equal(t, "old", string(clitest.Read(t, old)))
	require.NoFileExists(t, none)
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
		require.Contains(t, out.String(), logs.SampleName)
	}
	var out, errs bytes.Buffer
	require.Zero(t, cli.Run(context.Background(), []string{"replay", "-"}, cli.Streams{In: full, Out: &out, Err: &errs}, clitest.Commands...))
	require.Empty(t, errs.String())
}

func TestCheckOfATraceReportsDifferences(t *testing.T) {
	exitCode, out, errs := clitest.Execute(t, "", "replay", "--check", clitest.Write(t, "ok.trace", clitest.OkTrace))
	require.Zero(t, exitCode, errs)
	require.Equal(t, "ok.trace: 2 events checked, and all got the results that the trace has\n", filepath.Base(out))

	wrong := strings.Replace(clitest.OkTrace, "deny    0    1s", "deny    0    2s", 1)
	exitCode, out, errs = clitest.Execute(t, "", "replay", "--check", clitest.Write(t, "wrong.trace", wrong))
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Empty(t, errs)
	require.Contains(t, out, "deny    0    2s")
	require.Contains(t, out, "wrong.trace:5: 1 of 2 events got other results than the trace has\n")
}

const caddyLines = `{"level":"info","ts":946684800.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a","headers":{"X-Key":["k1"],"Accept":["a","b"]}},"status":200}
{"level":"error","ts":946684801,"logger":"tls","msg":"no certificate"}
{"level":"info","ts":946684801.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/b","headers":{"X-Key":["k1"]}},"status":200}
{"level":"info","ts":946684802.5,"logger":"http.log.access","request":{"remote_ip":"192.0.2.2","method":"GET","uri":"/b","headers":{}},"status":200}
`

func TestLinesThatAreNotRequestsAreReported(t *testing.T) {
	exitCode, out, errs := clitest.Execute(t, caddyLines, "replay", "-")
	require.Zero(t, exitCode, errs)
	require.Contains(t, out, "3 requests, 2000-01-01 00:00:00 to 2000-01-01 00:00:02 UTC, 2 keys by ip")
	require.Contains(t, out, "1 of 4 lines skipped because they are not log lines; the first is standard input:2: no client, request or status in the JSON object")

	exitCode, _, errs = clitest.Execute(t, `{"ts":1e9,"level":"info"}`, "replay", "-")
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Contains(t, errs, "keep only the lines that are requests")
	require.NotContains(t, errs, "--time-field")
}

func TestRequestsWithoutAFieldAreCounted(t *testing.T) {
	out := clitest.Ok(t, clitest.FourLines, "replay", "--by", "user+ip", "-")
	require.Contains(t, out, "\n1 of 4 requests without a user; their key has ip:ADDRESS instead, or - if they have no address\n")
	require.NotContains(t, out, "an ip")
	out = clitest.Ok(t, clitest.FourLines, "replay", "--by", "user+host", "--json", "-")
	var r JSONReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, map[string]int64{"user": 1, "host": 4}, r.Missing)
	require.Contains(t, clitest.Ok(t, clitest.FourLines, "replay", "--by", "host", "-"), "no request has a host; their key has - instead")
	tenants := strings.Replace(`{"time":946684800,"tenant":"x"}|{"time":946684801,"ip":"192.0.2.1"}`, "|", "\n", 1)
	out = clitest.Ok(t, tenants, "replay", "--key-field", "tenant", "-")
	require.Contains(t, out, `1 of 2 requests without a member "tenant"; their key has ip:ADDRESS instead`)
}

// TestStackNamesThePartThatItsCountsDescribe: counts of all(...) are for the period of its first part.
func TestStackNamesThePartThatItsCountsDescribe(t *testing.T) {
	out := clitest.Ok(t, clitest.FourLines, "replay", "-p", "all(gcra 10/s; gcra 100/m)", "-p", "all(gcra 1/m)", "-p", "gcra 2/m", "-")
	require.Regexp(t, `(?m)^  all\(gcra 10/s; gcra 100/m\) .* 10/s \(part 1 of 2\) +20 `, out)
	require.Equal(t, 1, strings.Count(out, "(part "))
	out = clitest.Ok(t, clitest.FourLines, "replay", "-p", "penalty(all(gcra 10/s; gcra 100/m); for=1m)", "-p", "penalty(gcra 2/m; for=1m)", "-")
	require.Regexp(t, `(?m)^  penalty\(.* 10/s \(part 1 of 2\) +20 `, out)
	require.Equal(t, 1, strings.Count(out, "(part "))
	out = clitest.Ok(t, clitest.FourLines, "replay", "--json", "-p", "all(gcra 10/s; gcra 100/m)", "-p", "gcra 2/m", "-p", "penalty(all(gcra 10/s; gcra 100/m); for=1m)", "-")
	var r JSONReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "gcra 10/s", r.Policies[0].Worst.Part)
	require.Equal(t, "gcra 10/s", r.Policies[2].Worst.Part)
	require.Equal(t, 2, strings.Count(out, `"part"`))
}
