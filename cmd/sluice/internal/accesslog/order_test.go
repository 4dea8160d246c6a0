package accesslog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// logOf returns a log with a line for each word SECOND:ADDRESS. The word - gives an invalid line.
func logOf(words string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(words) {
		second, name, ok := strings.Cut(word, ":")
		if !ok {
			b.WriteString("nonsense\n")
			continue
		}
		at, _ := time.ParseDuration(second + "s")
		fmt.Fprintf(&b, "{\"time\":\"%s\",\"ip\":%q}\n", time.Unix(1e9, 0).Add(at).UTC().Format(time.RFC3339Nano), name)
	}
	return b.String()
}

// words is the inverse of logOf. ! marks a late entry.
func words(entries []entry) string {
	var all []string
	for _, e := range entries {
		seconds := strconv.FormatFloat(e.Time.Sub(time.Unix(1e9, 0)).Seconds(), 'f', -1, 64)
		word := seconds + ":" + e.IP
		if e.Late {
			word += "!"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

func TestOrder(t *testing.T) {
	tracetest.Answers(t, "testdata/order.txt", func(question string) string {
		window, log, _ := strings.Cut(question, " | ")
		reorder, err := time.ParseDuration(window)
		require.NoError(t, err)
		entries, stats, err := readText(t, Options{Reorder: reorder}, logOf(log))
		require.NoError(t, err)
		return fmt.Sprintf("%s (%d reordered, %d late)", words(entries), stats.Reordered, stats.Late)
	})
}

// A process can open too few files for a thousand rotated logs. A pipe can be opened only once.
func TestFilesAreOpenOnlyWhileTheyAreMerged(t *testing.T) {
	open, most := 0, 0
	var inputs []Input
	for i := range 50 {
		data := logOf(fmt.Sprintf("%d:a %d:b", 100-i, 100-i))
		inputs = append(inputs, Input{Name: fmt.Sprint(i), Open: func() (io.ReadCloser, error) {
			open++
			most = max(most, open)
			return closing{strings.NewReader(data), &open}, nil
		}})
	}
	inputs = append(inputs, FromReader("pipe", strings.NewReader(logOf("101:c"))))
	entries, _, err := read(t, Options{}, inputs...)
	require.NoError(t, err)
	require.Len(t, entries, 101)
	require.Zero(t, open)
	require.LessOrEqual(t, most, 2)
}

type closing struct {
	io.Reader
	open *int
}

func (c closing) Close() error {
	*c.open--
	return nil
}

func TestAnInputThatCannotBeReadIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.log")
	_, _, err := read(t, Options{}, FromReader("good", strings.NewReader(logOf("1:a"))), FromFile(missing))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing.log")

	_, _, err = read(t, Options{}, FromFile(t.TempDir()))
	require.ErrorContains(t, err, "is a directory")
}

// One time in the future makes all later entries late. The reader must not keep them in memory until the
// end.
func TestTheWindowShrinksAtItsMemoryLimit(t *testing.T) {
	var stats Stats
	var got []entry
	most := 0
	w := &window{length: time.Minute, fields: IP, stats: &stats, most: 51_500, emit: func(e *Entry) error {
		got = append(got, copied(e))
		return nil
	}}
	for line := range int64(5_000) {
		at := line / 40 // 40 lines a second, which are 12,360 bytes
		switch {
		case line == 2_500:
			at = 1e9
		case line%10 == 9:
			at -= 3 // within the memory limit
		case line%100 == 98:
			at -= 50 // within the minute
		}
		require.NoError(t, w.add(&Entry{Time: time.Unix(at, 0).UTC(), Line: line, IP: []byte("192.0.2.7")}))
		most = max(most, w.size)
	}
	require.NoError(t, w.end())
	require.Len(t, got, 5_000)
	require.True(t, slices.IsSortedFunc(got, func(x, y entry) int { return x.Time.Compare(y.Time) }))
	require.Zero(t, w.size)
	require.LessOrEqual(t, most, 52_000)
	var late, after int64
	for _, e := range got {
		if e.Late {
			late++
			if e.Line > 2_500 {
				after++
			}
		}
	}
	require.EqualValues(t, 2_499, after)
	require.Equal(t, late, stats.Late)
	require.InDelta(t, 2_499+25, late, 10, "and of the first half those that were 50 seconds late")
}
