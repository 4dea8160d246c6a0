package accesslog

// These tests promise:
//
//   - Each format is read, behind any prefix too (reader_test.go, prefix_test.go, json_test.go).
//   - No text makes the reader panic, lose a line or deliver entries out of order (reader_test.go).
//   - The client is the address that the server saw, whatever a client put into its headers
//     (prefix_test.go).
//   - Entries are in the order of time, also from several files, with bounded memory and few open files
//     (reader_test.go, order_test.go, damage_test.go).
//   - Invalid lines and damaged files are counted and reported (damage_test.go).
//   - Keys of different fields differ and are printable (json_test.go).

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// entry is an Entry that keeps its text.
type entry struct {
	Time                                      time.Time
	IP, User, Method, Path, Host, Key, Status string
	Forwarded                                 string
	File                                      string
	Line                                      int64
	Late                                      bool
}

func copied(e *Entry) entry {
	return entry{e.Time, string(e.IP), string(e.User), string(e.Method), string(e.Path), string(e.Host), string(e.Key), string(e.Status),
		string(e.Forwarded), e.File, e.Line, e.Late}
}

// read returns copies of all entries of the inputs, with all fields if the options name none.
func read(tb testing.TB, o Options, inputs ...Input) (entries []entry, stats Stats, err error) {
	o.Fields = cmp.Or(o.Fields, IP|User|Method|Path|Host|Key|Forwarded|Status)
	stats, err = Read(tb.Context(), inputs, o, func(e *Entry) error {
		entries = append(entries, copied(e))
		return nil
	})
	return entries, stats, err
}

// readText reads a log of that text.
func readText(tb testing.TB, o Options, text string) ([]entry, Stats, error) {
	return read(tb, o, FromReader("log", strings.NewReader(text)))
}

// readLine returns the entry of a line.
func readLine(tb testing.TB, line string, o Options) entry {
	tb.Helper()
	entries, _, err := readText(tb, o, line)
	require.NoError(tb, err, line)
	require.Len(tb, entries, 1, line)
	return entries[0]
}

// shown returns the fields of an entry that are not empty.
func shown(e entry) string {
	var fields []string
	for _, f := range [][2]string{{"ip", e.IP}, {"user", e.User}, {"method", e.Method}, {"path", e.Path}, {"host", e.Host}, {"key", e.Key}, {"status", e.Status}, {"forwarded", e.Forwarded}} {
		if f[1] != "" {
			fields = append(fields, fmt.Sprintf("%s=%q", f[0], f[1]))
		}
	}
	return strings.Join(fields, " ")
}

// randomLog returns a log, plain or gzip, and its entries. A quarter of them are earlier than those before, by less or more than the window.
// Some lines are invalid.
func randomLog(r *rand.Rand, name string, now *int64) (log string, entries []entry) {
	for i := range int64(r.IntN(400)) {
		*now += int64(r.IntN(3)) * int64(r.IntN(2000))
		e := entry{Time: time.UnixMilli(*now).UTC(), IP: fmt.Sprint("192.0.2.", r.IntN(9)), File: name, Line: i + 1}
		switch {
		case r.IntN(20) == 0:
			log += "nonsense\n"
			continue
		case r.IntN(4) == 0:
			e.Time = e.Time.Add(-time.Duration(r.IntN(1<<(2+r.IntN(26)))) * time.Millisecond)
		}
		entries = append(entries, e)
		log += fmt.Sprintf("%s - - [%s] \"-\" - 0\n", e.IP, e.Time.Format("02/Jan/2006:15:04:05.000 -0700"))
	}
	if r.IntN(3) == 0 {
		log = clitest.Gzipped(log)
	}
	return log, entries
}

// ordered returns the entries of several files as Read should deliver them: it takes the earliest of the
// next entries of all files, moves those that are too late, and sorts the others.
func ordered(files [][]entry, reorder time.Duration) (all []entry, reordered, late int64) {
	var latest time.Time
	for {
		i := -1
		for j, file := range files {
			if len(file) > 0 && (i < 0 || file[0].Time.Before(files[i][0].Time)) {
				i = j
			}
		}
		if i < 0 {
			break
		}
		e := files[i][0]
		files[i] = files[i][1:]
		switch {
		case !e.Time.Before(latest):
			latest = e.Time
		case e.Time.Before(latest.Add(-reorder)):
			e.Time, e.Late = latest, true
			late++
		default:
			reordered++
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.Time.Compare(b.Time) })
	return all, reordered, late
}

func TestRandomLogsAreMergedInOrder(t *testing.T) {
	windows := []time.Duration{0, time.Second, 1500 * time.Millisecond, time.Minute, 3 * time.Hour, 1000 * time.Hour}
	for seed := range uint64(30) {
		r, now := rand.New(rand.NewPCG(seed, 1)), int64(1_431_857_103_000)
		var inputs []Input
		var files [][]entry
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprint("log", i)
			log, entries := randomLog(r, name, &now)
			in := FromReader(name, strings.NewReader(log))
			if r.IntN(2) == 0 { // a file, which is opened again when its turn comes
				in = Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil }}
			}
			inputs, files = append(inputs, in), append(files, entries)
		}
		o := Options{Reorder: windows[seed%6]}
		want, reordered, late := ordered(files, o.Reorder)
		got, stats, err := read(t, o, inputs...)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], got[i], "seed %d, entry %d", seed, i)
		}
		require.Equal(t, []int64{reordered, late, int64(len(want))}, []int64{stats.Reordered, stats.Late, stats.Entries})
		require.Equal(t, stats.Lines, stats.Entries+stats.Skipped)
	}
}

// TestRequests: a question is the text behind the time of a line in the common format, and the answer is what the reader finds in it.
func TestRequests(t *testing.T) {
	tracetest.Answers(t, "testdata/requests.txt", func(text string) string {
		entries, stats, _ := readText(t, Options{}, "- - - [17/May/2015:10:05:03 +0000] "+text)
		if stats.FirstSkipped != nil {
			return stats.FirstSkipped.Reason
		}
		return shown(entries[0])
	})
}

// FuzzParse reads any text as two logs, whole and byte by byte, plain and compressed. The reader loses no line, and delivers
// the same entries in the order of time.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodLine+"\n"), []byte(`{"time":1000000001.5,"ip":"192.0.2.7"}`), uint16(60_000))
	for _, prefix := range prefixes {
		f.Add([]byte(prefix+goodLine+"\n"+goodLine), []byte(prefix+`{"time":1000000001.5,"ip":"192.0.2.7"}`), uint16(60_000))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, millis uint16) {
		o := Options{Reorder: time.Duration(millis) * time.Millisecond}
		if millis%2 == 1 {
			o.TimeField, o.KeyField = "t", "k"
		}
		entries, stats, _ := read(t, o, FromReader("first", bytes.NewReader(first)), FromReader("second", bytes.NewReader(second)))
		require.Equal(t, stats.Lines, stats.Entries+stats.Skipped)
		require.Len(t, entries, int(stats.Entries))
		require.True(t, slices.IsSortedFunc(entries, func(a, b entry) int { return a.Time.Compare(b.Time) }))
		if bytes.HasPrefix(first, []byte{0x1f, 0x8b}) || bytes.HasPrefix(second, []byte{0x1f, 0x8b}) {
			return
		}
		again, counts, _ := read(t, o, FromReader("first", iotest.OneByteReader(bytes.NewReader(first))), FromReader("second", strings.NewReader(clitest.Gzipped(string(second)))))
		require.Equal(t, entries, again)
		require.Equal(t, stats, counts)
	})
}
