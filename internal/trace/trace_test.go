package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/costed"
)

func parse(t *testing.T, text string) *Trace {
	t.Helper()
	tr, err := Parse(strings.NewReader(text), "x.trace")
	require.NoError(t, err)
	return tr
}

func format(t *testing.T, tr *Trace) string {
	t.Helper()
	var s strings.Builder
	require.NoError(t, tr.Format(&s))
	return s.String()
}

func TestErrorNamesTheFault(t *testing.T) {
	const policy = "policy gcra 10/s\n"
	for text, want := range map[string]string{
		"":                                             `x.trace: not a trace: there is no event`,
		policy:                                         `x.trace: not a trace`,
		"polcy gcra 10/s":                              `x.trace:1: unknown word "polcy"; a line is policy SPEC, show COLUMN ..., @OFFSET KEY COST -> ..., or a # comment`,
		"\x1f\x8b\x08\x00":                             `x.trace:1: the word "\x1f\x8b\b\x00" has characters that are not printable; want UTF-8 text`,
		policy + "@0s \x1b[2J 1":                       `x.trace:2: the word "\x1b[2J" has`,
		policy + "@0s a 1 # b \x9b2J":                  `x.trace:2: the word "\x9b2J" has`,
		policy + "@0s a\u202e 1":                       `x.trace:2: the word "a\u202e" has`,
		policy + "@0s a\u009b 1":                       `x.trace:2: the word "a\u009b" has`,
		"# one\n\npolicy gcra 10/s brust=3":            `x.trace:3: policy "gcra 10/s brust=3", column 11: unknown option "brust"`,
		"@0s a 1":                                      `x.trace:1: the event has no policy; a trace begins with policy SPEC`,
		policy + "@0s a":                               `x.trace:2: "@0s a": an event is @OFFSET KEY COST`,
		policy + "@0s a #1":                            `x.trace:2: "@0s a": an event is @OFFSET KEY COST`,
		policy + "@soon a 1":                           `x.trace:2: offset "@soon": want a duration, such as @0s or @1m30s`,
		policy + "@0s a x":                             `x.trace:2: cost "x": want a whole number of at least 0, alone or after peek:, refund: or charge:`,
		policy + "@0s a -1":                            `x.trace:2: cost "-1": want`,
		policy + "@0s a peak:1":                        `x.trace:2: cost "peak:1": want`,
		policy + "@0s a 9223372036854775808":           `x.trace:2: cost "9223372036854775808": want`,
		policy + "@0s a 1 ok":                          `x.trace:2: unexpected word "ok"; after @OFFSET KEY COST comes ->`,
		policy + "@0s a 1 -> ok":                       `x.trace:2: the answer "ok" has 1 words; want 4: verdict left retry reset`,
		policy + "@0s a 1 -> yes 9 0s 1s":              `x.trace:2: verdict "yes": want ok or deny`,
		policy + "@0s a 1 -> ok 9s 0s 1s":              `x.trace:2: left "9s": want a whole number`,
		policy + "@0s a 1 -> ok 9 0 soon":              `x.trace:2: reset "soon": want a duration such as 100ms, or never`,
		policy + "@0s a 1 -> ok 9 0s 1s |":             `x.trace:2: the answer "" has 0 words`,
		policy + policy + "@0s a 1 -> ok 9 0s 1s":      `x.trace:3: 1 answers right of -> for 2 policies; want one answer for each policy, separated by |`,
		policy + "@0s a 1 -> ok 9 0s 1s | ok 9 0s 1s":  `x.trace:2: 2 answers right of -> for 1 policies`,
		policy + "@0s a 1\n" + policy + policy:         `x.trace:4: there are 1 policies before the first event`,
		policy + "@0s a 1\nshow left":                  `x.trace:3: show must come before the first event`,
		"show left\nshow left":                         `x.trace:2: show is given twice`,
		"show":                                         `x.trace:1: show needs a column: verdict left retry`,
		"show left remaining":                          `x.trace:1: unknown column "remaining"; known are verdict left retry reset available`,
		"show left left":                               `x.trace:1: column left is shown twice`,
		policy + "@0s " + strings.Repeat("k", maxLine): `x.trace:2: the line is longer than 65535 bytes`,
	} {
		_, err := Parse(strings.NewReader(text), "x.trace")
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 500)
	}
}

func TestEndlessInputIsRefused(t *testing.T) {
	_, err := Parse(endless("# "+strings.Repeat("so it goes ", 100)+"\n"), "-")
	require.ErrorContains(t, err, "the trace is longer than 16777216 bytes")
}

type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

func TestReadErrorsAreNotEOF(t *testing.T) {
	_, err := Parse(iotest.TimeoutReader(strings.NewReader("policy gcra 10/s\n@0s a 1\n@0s a")), "-")
	require.ErrorIs(t, err, iotest.ErrTimeout)
}

func TestDifferenceShowsBothDecisions(t *testing.T) {
	tr := parse(t, "policy gcra 10/s burst=3\n\n"+
		"@0s a 1 -> ok 2 0s 100ms\n"+
		"@0s   a  3 -> ok 0 0 300ms # really?\n"+
		"@0s a 1\n")
	differences, err := tr.Check()
	require.NoError(t, err)
	require.Len(t, differences, 2)
	require.Equal(t, "x.trace:4: @0s a 3\n"+
		"\tgot  deny 2 100ms 100ms\n"+
		"\twant ok   0 0s    300ms", differences[0])
	require.Equal(t, "x.trace:5: @0s a 1\n"+
		"\tgot  ok 1 0s 200ms\n"+
		"\twant (nothing right of ->)", differences[1])
}

func TestDurationsCompareByValue(t *testing.T) {
	tr := parse(t, "policy gcra 1/h burst=2\n@0s a 2 -> ok 0 0m 120m\n@0s a 1 -> deny +0 1h0m0s 7200s")
	differences, err := tr.Check()
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, "policy gcra 1/h burst=2\n@0s a 2 -> ok   0 0s 2h\n@0s a 1 -> deny 0 1h 2h\n", format(t, tr))
}

func TestByteOrderMarkIsSkipped(t *testing.T) {
	require.Equal(t, "policy gcra 10/s\n@0s a 1\n", format(t, parse(t, "\uFEFFpolicy gcra 10/s\n@0s a 1\n")))
}

func TestColumnsAreCountedInCharacters(t *testing.T) {
	ran, err := parse(t, "policy gcra 10/s\nshow left\n@0s größenwahn 1\n@0s b 1\n").Run()
	require.NoError(t, err)
	require.Equal(t, "policy gcra 10/s\nshow left\n@0s größenwahn 1 -> 9\n@0s b 1          -> 9\n", format(t, ran))
}

func TestStateOfAnotherAlgorithmIsAnError(t *testing.T) {
	_, err := parse(t, "policy gcra 10/s\n@0s a 1\npolicy all(gcra 10/s)\n@0s b 1\n@0s a 1").Run()
	require.EqualError(t, err, "x.trace:5: policy all(gcra 10/s): algo: not a state of this policy; a policy line after an event keeps the states, so it needs the same algorithm")
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
		tr, err := Parse(strings.NewReader(text), "x")
		if err != nil {
			return
		}
		written := format(t, tr)
		require.Equal(t, written, format(t, parse(t, written)), "a written trace can be read and written again")
		ran, err := tr.Run()
		if err != nil {
			return
		}
		differences, err := parse(t, format(t, ran)).Check()
		require.NoError(t, err)
		require.Empty(t, differences, "the decisions of a run are its answers")
	})
}

func TestExampleInThePackageCommentIsTrue(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var example strings.Builder
	for _, line := range strings.Split(string(text), "\n") {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			example.WriteString(line + "\n")
		} else if line != "//" && example.Len() > 0 {
			break
		}
	}
	tr := parse(t, example.String())
	differences, err := tr.Check()
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, example.String(), format(t, tr))
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
	differences, err := tr.Check()
	require.NoError(t, err)
	require.Empty(t, differences, "Under does not change the trace")
	same, err := costed.Parse("gcra 10/s")
	require.NoError(t, err)
	differences, err = tr.Under(same).Check()
	require.NoError(t, err)
	require.Len(t, differences, 2)
}
