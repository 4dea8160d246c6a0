// The tests promise that Traces fails with a readable message for each fault of a trace, that it rewrites only the decisions, and
// that Store fails as real stores do and otherwise obeys the laws of stores.
package sluicetest

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/trace"
)

// Other tests run this one in a process of its own, with another pattern.
func TestTraces(t *testing.T) {
	Traces(t, cmp.Or(os.Getenv("SLUICETEST_PATTERN"), "testdata/*.trace"))
}

// runTraces runs TestTraces in a process of its own.
func runTraces(t *testing.T, pattern, update string, flags ...string) (output string, err error) {
	t.Helper()
	c := exec.Command(os.Args[0], append([]string{"-test.run=^TestTraces$", "-test.v"}, flags...)...)
	c.Env = append(os.Environ(), "SLUICETEST_PATTERN="+pattern, "SLUICE_UPDATE="+update)
	out, err := c.CombinedOutput()
	return string(out), err
}

const (
	wrong = "policy gcra 3/h burst=2  # signups\n@0s ann 2 -> ok 0 0s 40m\n@0s ann 1 -> ok 0 0s 1h\n@0s ann 1\n@20m ann 1 -> ok 0 0s 40m # again\n"
	right = "policy gcra 3/h burst=2  # signups\n@0s ann 2  -> ok   0 0s  40m\n@0s ann 1  -> deny 0 20m 40m\n@0s ann 1  -> deny 0 20m 40m\n@20m ann 1 -> ok   0 0s  40m  # again\n"
)

// write writes a trace into a new directory.
func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "signups.trace")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func TestFaultOfATraceIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"policy gcra 3/h\n@0s ann one\n": `FILE:2: cost "one": want a whole number of at least 0, alone or after peek:, refund: or charge:`,
		"":                               `FILE: not a trace: there is no event, a line such as @0s KEY 1`,
		"policy gcra 3/h\n@0s a 1\npolicy all(gcra 3/h)\n@0s a 1\n": `FILE:3: policy all(gcra 3/h): a policy line after an event keeps the states, ` +
			`but a limiter would not keep those of gcra 3/h; want the same algorithm, and in all() the same periods`,
	} {
		for _, update := range []bool{false, true} {
			file := write(t, text)
			require.EqualError(t, runFile(t, file, update), strings.ReplaceAll(want, "FILE", file), "update: %v", update)
			require.Equal(t, text, read(t, file))
		}
	}
	require.ErrorContains(t, runFile(t, t.TempDir(), false), "is a directory")
}

// The author of a trace can show other columns, or add a policy, and need not delete the old decisions.
func TestDecisionsOfAnotherFormAreRewritten(t *testing.T) {
	file := write(t, "show left\npolicy gcra 3/h\npolicy fixedwindow 5/h\n@0s a 1 -> ok 2 0s 20m # two\n@0s a 1 -> soon\n")
	want := file + `:4: the answer "ok 2 0s 20m" must have a word for each column: left; a line such as show verdict chooses the columns`
	require.EqualError(t, runFile(t, file, false), want)
	require.NoError(t, runFile(t, file, true))
	require.Equal(t, "show left\npolicy gcra 3/h\npolicy fixedwindow 5/h\n@0s a 1 -> 2 | 4  # two\n@0s a 1 -> 1 | 3\n", read(t, file))
}

func TestEachFileIsASubtest(t *testing.T) {
	file := write(t, wrong)
	other := filepath.Join(filepath.Dir(file), "other.trace")
	require.NoError(t, os.WriteFile(other, []byte(right), 0o600))
	pattern := filepath.Join(filepath.Dir(file), "*.trace")

	output, err := runTraces(t, pattern, "")
	require.Error(t, err, output)
	require.Contains(t, output, "--- FAIL: TestTraces/signups ")
	require.Contains(t, output, "--- PASS: TestTraces/other ")
	require.Contains(t, output, file+":3: 2 of 4 events got other decisions than the trace has; if they are right, run the test with SLUICE_UPDATE=1\n")
	require.Contains(t, output, "-@0s ann 1  -> ok   0 0s  1h\n")

	output, err = runTraces(t, pattern, "0")
	require.Error(t, err, output)
	require.Equal(t, wrong, read(t, file))

	output, err = runTraces(t, pattern, "1")
	require.NoError(t, err, output)
	require.Equal(t, right, read(t, file))
	require.Contains(t, output, "rewrote "+file)
}

func TestInvalidArgumentsFail(t *testing.T) {
	file := write(t, wrong)
	for _, test := range []struct{ pattern, update, want string }{
		{"testdata/*.traces", "", `sluicetest: no file matches "testdata/*.traces" in `},
		{"testdata/[", "", `sluicetest: pattern "testdata/[": syntax error in pattern`},
		{file, "please", `sluicetest: SLUICE_UPDATE is "please"; want 1 to rewrite the traces, or 0`},
	} {
		output, err := runTraces(t, test.pattern, test.update)
		require.Error(t, err, output)
		require.Contains(t, output, "--- FAIL: TestTraces ")
		require.Contains(t, output, test.want)
	}
	require.Equal(t, wrong, read(t, file))
}

func TestExampleInThePackageCommentIsTrue(t *testing.T) {
	_, comment, found := strings.Cut(read(t, "doc.go"), "and the decisions right of them:\n//\n")
	require.True(t, found)
	var example strings.Builder
	for line := range strings.Lines(comment) {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			example.WriteString(line)
		} else if line != "//\n" {
			break
		} else {
			example.WriteString("\n")
		}
	}
	text := strings.TrimSpace(example.String()) + "\n"
	parsed, err := trace.Parse(strings.NewReader(text), "doc.go")
	require.NoError(t, err)
	require.Equal(t, 5, parsed.Events())
	ran, err := parsed.Run()
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, ran.Format(&out))
	require.Equal(t, text, out.String())
}
