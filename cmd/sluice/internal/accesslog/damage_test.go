package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

const goodLine = `192.0.2.7 - ann [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 512`

func TestDamageIsSkippedAndCounted(t *testing.T) {
	noise := make([]byte, 300_000)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	good := strings.Repeat(goodLine+"\n", 3)
	tests := []struct {
		name, log      string
		entries, lines int64
		first          string // the first skipped line
	}{
		{"nothing", "", 0, 0, ""},
		{"no line end", goodLine, 1, 1, ""},
		{"CRLF", strings.ReplaceAll(good, "\n", "\r\n"), 3, 3, ""},
		{"more CRs", goodLine + "\n\r\r\r\n", 1, 2, `log:2: empty line: ""`},
		{"byte order mark", "\uFEFF" + good, 3, 3, ""},
		{"an empty line", good + "\n", 3, 4, `log:4: empty line: ""`},
		{"cut in the status", good + goodLine[:len(goodLine)-5], 3, 4, `log:4: no "request" and status after the time: "192.0.2.7 - ann [17/May/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 20"`},
		{"cut in the size", good + goodLine[:len(goodLine)-1], 4, 4, ""},
		{"cut JSON", good + `{"time":1,"ip":"192.0`, 3, 4, `log:4: not valid JSON: "{\"time\":1,\"ip\":\"192.0"`},
		{"no such day", good + strings.Replace(goodLine, "17/May", "32/Foo", 1), 3, 4,
			`log:4: invalid time: "192.0.2.7 - ann [32/Foo/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 200 512"`},
		{"NUL bytes", good + "\x00\x00" + goodLine + "\n", 3, 4,
			`log:4: no address before the time: "\x00\x00192.0.2.7 - ann [17/May/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 200 512"`},
		{"a long path", good + strings.Replace(goodLine, "/a", "/"+strings.Repeat("a", 200_000), 1), 4, 4, ""},
		{"10 MB in one line", good + strings.Replace(goodLine, "/a", "/"+strings.Repeat("a", 10<<20), 1) + "\n" + good, 6, 7,
			`log:4: longer than 1 MiB: "192.0.2.7 - ann [17/May/2015:10:05:03 +0000] \"GET /` + strings.Repeat("a", 49) + `"...`},
		{"10 MB without an end", good + strings.Repeat("\xff", 10<<20), 3, 4, "log:4: longer than 1 MiB: \"" + strings.Repeat(`\xff`, 100) + `"...`},
		{"half of the lines", goodLine + "\nbad \x1b[31m\n", 1, 2, `log:2: no [time]: "bad \x1b[31m"`},
		{"deep JSON", good + `{"time":1,"a":` + strings.Repeat("[", 500_000), 3, 4, `log:4: not valid JSON: "{\"time\":1,\"a\":` + strings.Repeat("[", 86) + `"...`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, stats, err := readText(t, Options{}, test.log)
			require.NoError(t, err)
			require.Len(t, entries, int(test.entries))
			require.Equal(t, test.lines, stats.Lines)
			require.Equal(t, test.lines-test.entries, stats.Skipped)
			first := ""
			if stats.FirstSkipped != nil {
				first = stats.FirstSkipped.String()
			}
			require.Equal(t, test.first, first)
		})
	}
	t.Run("more than half of the lines", func(t *testing.T) {
		entries, _, err := readText(t, Options{}, goodLine+"\nbad\nworse\n")
		require.Len(t, entries, 1)
		require.ErrorContains(t, err, "accesslog: 2 of 3 lines are not log lines (tried the common and combined formats")
	})
	t.Run("binary", func(t *testing.T) {
		entries, _, err := readText(t, Options{}, string(noise))
		require.Empty(t, entries)
		require.ErrorAs(t, err, new(*UnreadableError))
	})
}

func TestLinesAroundTheLimits(t *testing.T) {
	for _, n := range []int{100, 64 << 10, MaxLine - 1, MaxLine, MaxLine + 1, MaxLine + 2, MaxLine + 3, 2*MaxLine + 4, 2*MaxLine + 5} {
		for _, end := range []string{"\n", "\r\n", ""} {
			line := goodLine + " " + strings.Repeat("x", n-len(goodLine)-1)
			entries, stats, err := readText(t, Options{}, goodLine+"\n"+line+end)
			require.NoError(t, err)
			require.EqualValues(t, 2, stats.Lines)
			require.Equal(t, n > MaxLine, len(entries) == 1, "%d bytes ending in %q", n, end)
		}
	}
}

func TestGzip(t *testing.T) {
	half := strings.Repeat(goodLine+"\n", 500)
	whole := clitest.Gzipped(half) + clitest.Gzipped(half)
	flipped := []byte(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	tests := []struct {
		name, log string
		entries   int // at least
		damaged   bool
	}{
		{"two members", whole, 1000, false},
		{"cut off", whole[:len(whole)-12], 500, true},
		{"cut off between the members", clitest.Gzipped(half), 500, false},
		{"wrong checksum", string(flipped), 1000, true},
		{"followed by something else", whole + "something else", 1000, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, stats, err := readText(t, Options{}, test.log)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(entries), test.entries)
			require.Equal(t, test.damaged, len(stats.Damaged) == 1 && stats.Damaged[0].Name == "log", "%v", stats.Damaged)
		})
	}
	t.Run("nothing but the magic", func(t *testing.T) {
		_, _, err := readText(t, Options{}, whole[:2])
		require.ErrorContains(t, err, "log: the gzip file is cut short or damaged before its first line: unexpected EOF")
	})
}

// readFunc is a reader that calls a function.
type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

func TestAnErrorAndTheContextStopAnEndlessInput(t *testing.T) {
	for name, line := range map[string]string{"entries": `{"time":%d,"status":200}` + "\n", "bad lines": "bad\n", "one line": "x"} {
		t.Run(name, func(t *testing.T) {
			n := 1_000_000_000
			endless := readFunc(func(b []byte) (int, error) {
				n++
				return copy(b, strings.ReplaceAll(line, "%d", strconv.Itoa(n))), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := Read(ctx, []Input{FromReader("log", endless)}, Options{}, func(*Entry) error { return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if name == "entries" {
				_, err = Read(t.Context(), []Input{FromReader("log", endless)}, Options{}, func(*Entry) error { return io.ErrShortBuffer })
				require.ErrorIs(t, err, io.ErrShortBuffer)
			}
		})
	}
}

func TestMemoryIsFlatInTheNumberOfLines(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var start, most uint64
	var log bytes.Buffer
	for i := range 50_000 { // ten a second
		fmt.Fprintf(&log, "192.0.2.%d - - [17/May/2015:%02d:%02d:%02d +0000] \"GET /a HTTP/1.1\" 200 5\n", i%251, i/36_000, i/600%60, i/10%60)
	}
	lines := 0
	_, err := Read(t.Context(), []Input{FromReader("log", &log)}, Options{Reorder: DefaultReorder, Fields: IP | Path}, func(*Entry) error {
		switch lines++; {
		case lines == 10_000: // past the first minute
			start = heap()
		case lines%10_000 == 0:
			most = max(most, heap())
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 50_000, lines)
	require.Less(t, most, start+1<<20, "bytes of memory for 40,000 lines")
}

// TestPeekLosesNothing: whole has the text, and then the error. It reads the end once, because one ctrl-D on a terminal must be
// enough.
func TestPeekLosesNothing(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	for _, c := range []struct{ data, first string }{
		{"", ""}, {"hello", "hello"}, {long, long[:5000]}, {clitest.Gzipped("hello"), "hello"}, {clitest.Gzipped("hello")[:20], "hello"},
	} {
		text, ends := io.MultiReader(strings.NewReader(c.data), failing{io.ErrClosedPipe}), 0
		first, whole := Peek(readFunc(func(b []byte) (n int, err error) {
			if n, err = text.Read(b); err != nil {
				ends++
			}
			return n, err
		}), 5000)
		require.Equal(t, c.first, string(first))
		all, err := io.ReadAll(whole)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Equal(t, c.data, string(all))
		require.Equal(t, 1, ends)
	}
}
