package accesslog

// These tests promise:
//
//   - Entries that are written in any format, behind any prefix, out of order, between invalid lines and in
//     gzip are read back in the order of time (reader_test.go, prefix_test.go, json_test.go).
//   - No text makes the reader panic, lose a line or deliver entries out of order (reader_test.go).
//   - The client is the address that the server saw, whatever a client put into its headers
//     (prefix_test.go).
//   - Entries are in the order of time, also from several files, with bounded memory and few open files
//     (order_test.go, damage_test.go).
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

// generator makes entries, and writes them in all formats, out of order and between invalid lines.
type generator struct {
	*rand.Rand
	now int64 // milliseconds since 1970
}

func (g *generator) word(words ...string) string { return words[g.IntN(len(words))] }

func (g *generator) entry() entry {
	g.now += int64(g.IntN(3)) * int64(g.IntN(2000))
	back := int64(0) // later, less or more than the window
	if g.IntN(4) == 0 {
		back = int64(g.IntN(1 << (2 + g.IntN(26))))
	}
	return entry{
		Time:      time.UnixMilli(g.now - back).UTC(),
		IP:        g.word("192.0.2.7", "2001:db8::1", "216.292.58.48", "host.example", ""),
		User:      g.word("", "ann", "ann lee"),
		Method:    g.word("GET", "POST"),
		Path:      g.word("/", "/a", "/a b", "*", "/%22", "https://www.example.com/x", "/é", "/HTTP/1.1"),
		Status:    g.word("200", "404", "7", ""),
		Forwarded: g.word("", "", "198.51.100.7", "a,c, d"),
	}
}

// line writes an entry. The zones and the forms of the time differ.
func (g *generator) line(e *entry) string {
	ip, user, status := cmp.Or(e.IP, "-"), cmp.Or(e.User, "-"), fmt.Sprintf("%03s", e.Status)
	if e.Status == "" {
		status = g.word("-", "000")
	}
	if e.Forwarded != "" {
		ip = e.Forwarded + ", " + ip
	}
	at := e.Time.In(time.FixedZone("", []int{0, -4 * 3600, 19800}[g.IntN(3)]))
	target := e.Path + g.word("", "?b=c", "?b?c")
	line := ""
	switch g.IntN(3) {
	case 0:
		line = fmt.Sprintf(`%s %s %s [%s] "%s %s HTTP/1.1" %s 512`, ip, g.word("-", "ident"), user, at.Format("02/Jan/2006:15:04:05.000 -0700"), e.Method, target, status) +
			g.word("", ` "-" "agent"`, ` "https://www.example.com/" "a " b"`)
		if g.IntN(4) == 0 && e.IP != "" {
			e.Host = "www.example.com"
			line = "www.example.com:443 " + line
		}
	case 1:
		line = fmt.Sprintf(`{"%s":"%s","%s":"%s","user":%q,"request":"%s %s HTTP/1.1","status":%s,"ip2":[{"ip":"no"}]}`, g.word("time", "ts", "@timestamp"),
			at.Format(g.word(time.RFC3339Nano, "2006-01-02 15:04:05,000-0700", "02/Jan/2006:15:04:05.000 -0700")), g.word("ip", "remote_addr", "ClientHost"), ip, user, e.Method, target, cmp.Or(e.Status, "null"))
	case 2:
		e.Host, e.Key = "2001:db8::1", "k"
		line = fmt.Sprintf(`{ "Msec" : %s, "request":{"remote_ip":"%s","method":%q,"uri":"%s","host":"[2001:db8::1]:443","K":["k"]}, "user":{"name":"%s"}, "code":"%s"}`,
			g.word(fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6), fmt.Sprint(at.UnixMilli()), fmt.Sprint(at.UnixNano()), fmt.Sprintf("%.12e", float64(at.UnixMilli())/1e3)), ip, e.Method, target, user, status)
	}
	if e.Host == "" && strings.HasPrefix(e.Path, "https:") {
		e.Host = "www.example.com"
	}
	if g.IntN(8) == 0 && e.IP != "" {
		line = g.word(prefixes...) + line
	}
	return line
}

// log returns a log of up to n lines with its entries.
func (g *generator) log(name string, n int) (log []byte, entries []entry) {
	end, zip := g.word("\n", "\r\n", "\r\r\n"), g.IntN(3) == 0
	var members []byte
	for i := range n {
		e := g.entry()
		switch line := g.line(&e); {
		case g.IntN(20) == 0:
			log = append(log, g.word("{", "nonsense", line[:len(line)/2], "\x00"+line)...)
		default:
			e.File, e.Line = name, int64(i+1)
			entries = append(entries, e)
			log = append(log, line...)
		}
		log = append(log, end...)
		if zip && g.IntN(50) == 0 {
			members, log = append(members, clitest.Gzipped(string(log))...), nil
		}
	}
	if zip {
		log = append(members, clitest.Gzipped(string(log))...)
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

func TestWrittenEntriesAreReadBackInOrder(t *testing.T) {
	windows := []time.Duration{0, time.Second, 1500 * time.Millisecond, time.Minute, 3 * time.Hour, 1000 * time.Hour}
	for seed := range uint64(30) {
		g := &generator{rand.New(rand.NewPCG(seed, 1)), 1_431_857_103_000}
		var inputs []Input
		var files [][]entry
		for i := range 1 + g.IntN(4) {
			name := fmt.Sprint("log", i)
			log, entries := g.log(name, g.IntN(400))
			in := FromReader(name, bytes.NewReader(log))
			if g.IntN(2) == 0 { // a file, which is opened again when its turn comes
				in = Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}
			}
			inputs, files = append(inputs, in), append(files, entries)
		}
		o := Options{Reorder: windows[seed%6], KeyField: "request.k"}
		want, reordered, late := ordered(files, o.Reorder)
		got, stats, err := read(t, o, inputs...)
		require.NoError(t, err)
		for i := range min(len(want), len(got)) {
			require.Equal(t, want[i], got[i], "seed %d, entry %d", seed, i)
		}
		require.Len(t, got, len(want))
		require.Equal(t, []int64{reordered, late, int64(len(want))}, []int64{stats.Reordered, stats.Late, stats.Entries})
		require.Equal(t, stats.Lines, stats.Entries+stats.Skipped)
	}
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
