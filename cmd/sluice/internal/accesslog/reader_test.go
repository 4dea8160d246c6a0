package accesslog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/sample"
)

// read returns copies of all entries of the logs.
func read(tb testing.TB, logs []naiveLog, o Options) ([]naiveEntry, Stats, error) {
	var inputs []Input
	for _, log := range logs {
		inputs = append(inputs, FromReader(log.name, bytes.NewReader(log.data)))
	}
	return readInputs(tb, inputs, o)
}

func readInputs(tb testing.TB, inputs []Input, o Options) (entries []naiveEntry, stats Stats, err error) {
	r := NewReader(tb.Context(), inputs, o)
	defer r.Close()
	for r.Next() {
		entries = append(entries, copied(r.Entry()))
	}
	require.False(tb, r.Next(), "Next is false again after the end")
	return entries, r.Stats(), r.Err()
}

func copied(e *Entry) naiveEntry {
	return naiveEntry{e.Time, string(e.IP), string(e.User), string(e.Method), string(e.Path),
		string(e.Host), string(e.Key), string(e.Forwarded), e.Status, e.File, e.Line, e.Late}
}

// readLine returns the entry of a line, which must be that of the naive reader too.
func readLine(tb testing.TB, line string, o Options) naiveEntry {
	tb.Helper()
	log := []naiveLog{{"log", []byte(line)}}
	entries, _, err := read(tb, log, o)
	require.NoError(tb, err, line)
	require.Len(tb, entries, 1, line)
	o.Fields = 0 // all
	requireSame(tb, log, o)
	return entries[0]
}

// requireSame compares with the naive reader.
func requireSame(tb testing.TB, logs []naiveLog, o Options) {
	tb.Helper()
	want, counts := naiveRead(logs, o)
	got, stats, err := read(tb, logs, o)
	compare(tb, want, got, counts, stats)
	if stats.Skipped*2 > stats.Lines {
		require.ErrorAs(tb, err, new(*UnreadableError))
	} else if stats.Lines > 0 {
		require.NoError(tb, err)
	}
}

func compare(tb testing.TB, want, got []naiveEntry, counts, stats Stats) {
	tb.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			require.Equal(tb, want[i], got[i], "entry %d", i)
		}
	}
	require.Len(tb, got, len(want))
	counts.FirstSkipped, counts.FirstNoAddress, counts.Damaged = stats.FirstSkipped, stats.FirstNoAddress, stats.Damaged
	require.Equal(tb, counts, stats)
}

var windows = []time.Duration{0, time.Second, 1500 * time.Millisecond, time.Minute, 3 * time.Hour, 1000 * time.Hour}

func TestAgreesWithTheNaiveReaderOnGeneratedLogs(t *testing.T) {
	seeds := uint64(30)
	if sample.Brief() {
		seeds = 10
	}
	for seed := range seeds {
		g := &generator{rand.New(rand.NewPCG(seed, 1)), 1_431_857_103_000}
		var logs []naiveLog
		for i := range 1 + g.IntN(4) {
			logs = append(logs, naiveLog{fmt.Sprint("log", i), g.log(g.IntN(400))})
		}
		o := Options{Reorder: windows[seed%6]}
		if seed%5 == 0 {
			o.TimeField, o.KeyField = "Odd.Time", "request.ID"
		}
		requireSame(t, logs, o)
	}
}

func TestAgreesWithTheNaiveReaderOnTheSample(t *testing.T) {
	const name = "../sample/access.log.gz"
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	compared := windows[:2]
	if sample.Brief() {
		compared = windows[:1]
	}
	for _, window := range compared {
		requireSame(t, []naiveLog{{name, data}}, Options{Reorder: window})
	}
}

// generator writes logs of all formats, out of order and with invalid lines.
type generator struct {
	*rand.Rand
	now int64 // milliseconds since 1970
}

func (g *generator) log(n int) []byte {
	var b bytes.Buffer
	end := []string{"\n", "\r\n", "\r"}[g.IntN(3)]
	format, mixed := g.IntN(4), g.IntN(4) == 0
	zip := g.IntN(3) == 0
	var members []byte
	for i := range n {
		if mixed {
			format = g.IntN(4)
		}
		b.WriteString(g.line(format))
		if i < n-1 || g.IntN(2) == 0 {
			b.WriteString(end)
		}
		if zip && g.IntN(50) == 0 {
			members = append(members, zipped(b.Bytes())...)
			b.Reset()
		}
	}
	if !zip {
		return b.Bytes()
	}
	members = append(members, zipped(b.Bytes())...)
	return members[:len(members)-g.IntN(2)*g.IntN(40)] // cut off, half the time
}

func (g *generator) line(format int) string {
	g.now += int64(g.IntN(3)) * int64(g.IntN(2000))
	line := g.entry(format, time.UnixMilli(g.now-g.back()).UTC())
	if g.IntN(8) == 0 {
		line = g.word(prefixes...) + g.rare("", prefixes...) + line
	}
	switch g.IntN(40) {
	case 0:
		i := g.IntN(len(line))
		line = line[:i] + g.word("\x00", "", `"`, `\`, " ", "[", "]", "\xff", "{", "\t", "é") + line[i+g.IntN(2):]
	case 1:
		line = line[:g.IntN(len(line)+1)]
	}
	if format == 3 {
		return strings.ToValidUTF8(line, "?") // encoding/json replaces invalid bytes by U+FFFD
	}
	return line
}

// back returns the delay of a line: usually 0, otherwise less or more than the window.
func (g *generator) back() int64 {
	if g.IntN(4) > 0 {
		return 0
	}
	return int64(g.IntN(1 << (2 + g.IntN(26))))
}

func (g *generator) word(words ...string) string { return words[g.IntN(len(words))] }

func (g *generator) ip() string {
	return g.word("192.0.2.7", "192.0.2.8", "2001:db8::1", "[2001:db8::1]:443", "192.0.2.9:8080", "host.example", "[2001:db8::2]", "-",
		"198.51.100.7, 192.0.2.7", "a b,c,  ,[2001:db8::1]:443", "192.0.2.7 198.51.100.1", "216.292.58.48", "-,")
}

func (g *generator) target() string {
	return g.word("/", "/a", "/a?b=c", "/a b", "/a   ", "*", "/%22", `/\"x\" 200 1`, `/"x`, "?", "https://www.example.com/x?y", "/é", "/HTTP/1.1", "/a?b?c")
}

func (g *generator) entry(format int, at time.Time) string {
	if format == 3 {
		return g.json(at)
	}
	stamp := at.In(time.FixedZone("", []int{0, -4 * 3600, 19800}[g.IntN(3)])).Format(g.word("02/Jan/2006:15:04:05 -0700", "02/Jan/2006:15:04:05 -0700", "02/Jan/2006:15:04:05.000 -0700"))
	stamp = g.rare(stamp, "32/Foo/2015:00:00:00 +0000", "29/Feb/2015:00:00:00 +0000", "29/Feb/2016:23:59:59 -0100", "01/Jan/1969:00:00:00 +0000",
		"31/Dec/9999:23:59:59 +0000", "01/Jan/0000:00:00:00 +0000", "17/may/2015:10:05:03 +0000", "17/May/2015:10:05:60 +0000", "17/May/2015:10:05:61 +0000", "17/May/2015:10:60:03 +0000", "17/May/2015:10:05:03 +9900", "-")
	request := g.word("GET", "POST", "PUT ") + " " + g.target() + g.word(" HTTP/1.1", " HTTP/1.0", "", "  HTTP/V1.0")
	request = g.rare(request, "-", "", `\x16\x03\x01`, "GET", "GET ", " GET /a", "HTTP/1.0", "GET HTTP/1.0", `\\`, `a\`)
	line := fmt.Sprintf(`%s %s %s [%s] "%s" %s %d`, g.ip(), g.word("-", "-", "ident"), g.word("-", "ann", "ann lee", "", " x "),
		stamp, request, g.rare("200", "404", "99", "2000", "", "abc"), g.IntN(1000))
	if format > 0 {
		line += fmt.Sprintf(` "%s" "%s"`, g.word("-", "https://www.example.com/"), g.word("agent", `a " b`, ""))
	}
	if format == 2 {
		line = g.word("www.example.com:443 ", "[2001:db8::1]:80 ", "localhost ", "example.com: ", ":80 ", "[]:80 ", "192.0.2.1:80 ", "- ", "192.0.2.1 ") + line
	}
	return line
}

func (g *generator) rare(usual string, rare ...string) string {
	if g.IntN(12) > 0 {
		return usual
	}
	return g.word(rare...)
}

func (g *generator) json(at time.Time) string {
	stamp := g.word(
		`"`+at.Format(time.RFC3339Nano)+`"`, `"`+at.Format("2006-01-02 15:04:05,000")+`"`, `"`+at.In(time.FixedZone("", 5400)).Format("2006-01-02t15:04:05.000-0700")+`"`,
		`"`+at.Format("02/Jan/2006:15:04:05 -0700")+`"`, `"[`+at.Format("02/Jan/2006:15:04:05 -0700")+`]"`,
		fmt.Sprint(at.Unix()), fmt.Sprintf(`"%d"`, at.Unix()), fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6),
		fmt.Sprint(at.UnixMilli()), fmt.Sprint(at.UnixMicro()), fmt.Sprint(at.UnixNano()), fmt.Sprintf("%.9e", float64(at.Unix())))
	stamp = g.rare(stamp, "null", "-1.5", "0", "1e400", "0e400", "1e-400", "-0.0000000001", "99999999999.9999999999", "1e11", "123456789012345678901",
		`""`, `"2015-02-29T00:00:00Z"`, `"2015-05-17T10:05:03"`, `"2015-05-17T10:05:03+2400"`, `"2015-05-17T10:05:03."`, "{}", "[1]", `"1.5.5"`, `"1e"`, `"."`)
	members := []string{
		`"` + g.word("time", "ts", "@timestamp", "Time", `tim\u0065`, "odd.time") + `":` + stamp,
		`"odd" : { "time":` + stamp + `}`,
		`"` + g.word("ip", "remote_addr", "ClientHost", "client") + `":"` + g.ip() + `"`,
		`"user":` + g.word(`"ann"`, `"-"`, `""`, "17", "true", "null", `"\u00e9\ud83d\ude00\ud83d\"\\\/\b\f\n\r\t"`, `"\ud83d\u0041\udc00\u00e9\uD83D\uDE00"`, `{"name":"ben","id":[{"user":"no"}]}`),
		`"status":` + g.word("200", `"404"`, "1e2", "-1", "2000", "false"),
		`"request":` + g.word(`"GET /r?x HTTP/1.1"`, `{"method":"PUT","uri":"/n?x","id":"k1","host":"[2001:db8::1]:443"}`, `"-"`, "null", "3"),
		`"request":{"id":` + g.word(`"k2"`, "12.50", "false", "[]", `["a"]`, `[ "b" ,"\u00e9",""]`, `["c",1]`, `[["d"]]`, `[""]`) + `}`,
		`"method":"` + g.word("GET", "", "-") + `"`,
		`"path":"` + strings.ReplaceAll(strings.ReplaceAll(g.target(), `\`, `\\`), `"`, `\"`) + `"`,
		`"host":"www.example.com:443"`, `"IP":"192.0.2.1"`,
		`"nest":` + g.rare("1", strings.Repeat("[", 99)+strings.Repeat("]", 99), strings.Repeat("[", 100)+strings.Repeat("]", 100),
			strings.Repeat(`{"a":`, 99)+"1"+strings.Repeat("}", 99), strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)),
		`"list":[1,-2.5e+3,[{"ip":"no"}],"x",{}]`,
		`"bad":` + g.rare("0", "01", "tru", "-", "1.", ".5", `"\x"`, `"\u12g4"`, "[1,]", "\"\t\"", "{,}"),
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return g.word("{", "{ ") + strings.Join(members[g.IntN(4):], g.word(",", " ,\t")) + g.word("}", " } ")
}
