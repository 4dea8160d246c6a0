package trace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/internal/trace"
)

func parse(t *testing.T, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader(text), "x.trace")
	require.NoError(t, err)
	return tr
}

func format(t *testing.T, tr *trace.Trace) string {
	t.Helper()
	var s strings.Builder
	require.NoError(t, tr.Format(&s))
	return s.String()
}

func TestErrorNamesTheFault(t *testing.T) {
	tracetest.Answers(t, "testdata/errors.txt", func(text string) string {
		tr, err := trace.Parse(strings.NewReader(text), "x.trace")
		if err == nil {
			_, err = tr.Diff()
		}
		require.Error(t, err)
		return err.Error()
	})
	_, err := trace.Parse(strings.NewReader("policy gcra 10/s\n@0s "+strings.Repeat("k", 64<<10)), "x.trace")
	require.EqualError(t, err, "x.trace:2: the line is longer than 65535 bytes")
}

func TestEndlessInputIsRefused(t *testing.T) {
	_, err := trace.Parse(endless("# "+strings.Repeat("so it goes ", 100)+"\n"), "-")
	require.ErrorContains(t, err, "the trace is longer than 16777216 bytes")
}

type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

func TestReadErrorsAreNotEOF(t *testing.T) {
	_, err := trace.Parse(iotest.TimeoutReader(strings.NewReader("policy gcra 10/s\n@0s a 1\n@0s a")), "-")
	require.ErrorIs(t, err, iotest.ErrTimeout)
}

func TestFormatAndDifferences(t *testing.T) {
	for name, test := range map[string]struct {
		text, written string
		different     int
	}{
		"durations compare by value": {"policy gcra 1/h burst=2\n@0s a 2 -> ok 0 0m 120m\n@0s a 1 -> deny +0 1h0m0s 7200s",
			"policy gcra 1/h burst=2\n@0s a 2 -> ok   0 0s 2h\n@0s a 1 -> deny 0 1h 2h\n", 0},
		"a byte order mark is skipped": {"\uFEFFpolicy gcra 10/s\n@0s a 1 -> ok 9 0s 100ms\n", "policy gcra 10/s\n@0s a 1 -> ok 9 0s 100ms\n", 0},
		"columns are counted in characters": {"policy gcra 10/s\nshow left\n@0s größenwahn 1 -> 9\n@0s b 1 -> 9\n",
			"policy gcra 10/s\nshow left\n@0s größenwahn 1 -> 9\n@0s b 1          -> 9\n", 0},
		"an event without answers differs": {"policy gcra 10/s burst=3\n\n@0s a 1 -> ok 2 0s 100ms\n@0s   a  3 -> ok 0 0 300ms # really?\n@0s a 1\n",
			"policy gcra 10/s burst=3\n\n@0s a 1    -> ok 2 0s 100ms\n@0s   a  3 -> ok 0 0s 300ms  # really?\n@0s a 1\n", 2},
	} {
		tr := parse(t, test.text)
		require.Equal(t, test.written, format(t, tr), name)
		d, err := tr.Diff()
		require.NoError(t, err)
		require.Equal(t, test.different, d.Events, name)
	}
}

// A limiter gives new records to a policy of another kind, also if it could read the states.
func TestPolicyOfAnotherKindIsAnError(t *testing.T) {
	for _, specs := range [][2]string{{"gcra 10/s", "all(gcra 10/s)"}, {"fixedwindow 5/d", "calendar 5/day"}, {"all(gcra 10/s)", "all(gcra 10/m)"}} {
		_, err := parse(t, "policy "+specs[0]+"\n@0s a 1\npolicy "+specs[1]+"\n@0s b 1").Run()
		require.ErrorContains(t, err, "x.trace:3: policy "+specs[1]+": a policy line after an event keeps the states, but a limiter would not keep those of "+specs[0])
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.trace")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := trace.Parse(strings.NewReader(text), "x")
		if err != nil {
			return
		}
		written := format(t, tr)
		require.Equal(t, written, format(t, parse(t, written)), "a written trace can be read and written again")
		ran, err := tr.Run()
		if err != nil {
			return
		}
		d, err := parse(t, format(t, ran)).Diff()
		require.NoError(t, err)
		require.Zero(t, d, "the decisions of a run are its answers")
	})
}

func TestDiffShowsTheLinesAroundEachDifference(t *testing.T) {
	equal := strings.Repeat("@0s c peek:1 -> ok 3 0s 0s\n", 10)
	tr := parse(t, "# the first line\npolicy gcra 10/s burst=3\n\n#at key cost\n@0s a 1 -> ok 2 0s 100ms\n@0s a 3 -> ok 0 0s 300ms # really?\n@0s b 1\n"+
		equal+"@0s c 1 -> ok 12345 0s 100ms\n")
	d, err := tr.Diff()
	require.NoError(t, err)
	require.Equal(t, 3, d.Events)
	require.Equal(t, 6, d.Line)
	tracetest.Golden(t, "testdata/diff.txt", d.Text)
}

func TestUnderRemovesTheAnswers(t *testing.T) {
	tr := parse(t, "# why\nshow left\npolicy gcra 10/s\n@0s a 1 -> 9\npolicy gcra 20/s\n@0s a 1 -> 18\n")
	one, err := costed.Parse("gcra 5/s")
	require.NoError(t, err)
	two, err := costed.Parse("fixedwindow 7/s cost=2")
	require.NoError(t, err)
	ran, err := tr.Under(one, two).Run()
	require.NoError(t, err)
	require.Equal(t, "policy gcra 5/s\npolicy fixedwindow 7/s cost=2\n# why\nshow left\n@0s a 1 -> 4 | 6\n@0s a 1 -> 3 | 5\n", format(t, ran))
	d, err := tr.Diff()
	require.NoError(t, err)
	require.Zero(t, d, "Under does not change the trace")
	same, err := costed.Parse("gcra 10/s")
	require.NoError(t, err)
	d, err = tr.Under(same).Diff()
	require.NoError(t, err)
	require.Equal(t, 2, d.Events)
}
