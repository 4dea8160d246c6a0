package accesslog

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

//go:embed testdata/programs.txt
var programs string

// prefixes has the text that well-known programs write before a line of a log.
var prefixes = func() (all []string) {
	for line := range strings.Lines(programs) {
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			prefix, _ := strconv.Unquote(quoted) // a quoted prefix has no error
			all = append(all, prefix)
		}
	}
	return all
}()

// formats has lines with the client 203.0.113.7.
var formats = []string{
	`203.0.113.7 - ann [29/Mar/2026:00:59:50 +0000] "GET /a HTTP/1.1" 200 12`,
	`203.0.113.7:5555 - ann [29/Mar/2026:00:59:50 +0000] "GET /a HTTP/1.1" 200 12 "-" "agent | x: y"`,
	`www.example.com:443 203.0.113.7 - ann [29/Mar/2026:00:59:50 +0000] "GET /a HTTP/1.1" 200 12`,
	`198.51.100.9, 203.0.113.7 - ann [29/Mar/2026:00:59:50 +0000] "GET /a HTTP/1.1" 200 12`,
	`{"time":"2026-03-29T00:59:50Z","ip":"203.0.113.7","user":"ann","method":"GET","path":"/a","host":"www.example.com","status":200}`,
}

// TestAWellKnownPrefixChangesNothing also checks each prefix behind each other one: rsyslog may forward
// what docker compose has written.
func TestAWellKnownPrefixChangesNothing(t *testing.T) {
	var bare, behind []string
	add := func(line string, outer ...string) {
		for _, o := range outer {
			for _, p := range prefixes {
				bare, behind = append(bare, line), append(behind, o+p+line)
			}
		}
	}
	for _, line := range formats {
		add(line, "")
	}
	add(formats[2], prefixes...)
	add(formats[4], prefixes...)
	bare, behind = append(bare, formats[4]), append(behind, "Mar 29 00:00:00 web1 "+formats[4]) // without the name of a program
	want, stats, err := readText(t, Options{}, strings.Join(bare, "\n"))
	require.NoError(t, err)
	got, same, err := readText(t, Options{}, strings.Join(behind, "\n"))
	require.NoError(t, err)
	require.Nil(t, same.FirstSkipped)
	require.Equal(t, stats, same)
	for i := range want {
		require.Equal(t, "203.0.113.7", want[i].IP)
		require.Equal(t, want[i], got[i], behind[i])
	}
}

// TestAPrefixInAForgedAddressMovesNoClient: X-Forwarded-For may come first, and clients choose it.
func TestAPrefixInAForgedAddressMovesNoClient(t *testing.T) {
	for _, prefix := range prefixes {
		for _, forged := range []string{prefix, prefix + "6.6.6.6", strings.TrimRight(prefix, " :|")} {
			entries, _, err := readText(t, Options{}, strings.Replace(goodLine, "192.0.2.7", forged+", 192.0.2.7", 1))
			if err == nil {
				require.Equal(t, "192.0.2.7", entries[0].IP, forged)
			}
		}
	}
}

// TestPartsOfALineAreJoined: container runtimes split lines at 16 KiB. The parts of the two streams
// may be interleaved.
func TestPartsOfALineAreJoined(t *testing.T) {
	cri := func(stream, tag, part string) string {
		return fmt.Sprintf("2026-03-29T00:59:50.123456789Z %s %s %s\n", stream, tag, part)
	}
	path := "/" + strings.Repeat("a b", 10_000)
	line := strings.Replace(goodLine, "/a", path, 1)
	log := goodLine + "\n" +
		cri("stdout", "P", line[:20_000]) +
		cri("stderr", "F", "an error") +
		cri("stdout", "P", line[20_000:30_001]) +
		cri("stderr", "P", "no live upstreams for client: ") +
		cri("stdout", "F", line[30_001:]) +
		cri("stderr", "F", "6.6.6.6 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 7") +
		cri("stdout", "F", goodLine)
	entries, stats, err := readText(t, Options{}, log)
	require.NoError(t, err)
	require.Equal(t, 3, len(entries))
	require.True(t, path == entries[1].Path)
	require.EqualValues(t, 6, entries[1].Line)
	require.EqualValues(t, 5, stats.Lines, "parts are not counted as lines")
	require.EqualValues(t, 2, stats.Skipped)

	for reason, parts := range map[string]string{
		"the end of the line is missing": cri("stdout", "P", goodLine),
		"longer than 1 MiB":              cri("stdout", "P", goodLine+" "+strings.Repeat("x", MaxLine-200)) + cri("stdout", "F", strings.Repeat("x", 200)),
	} {
		_, stats, err := readText(t, Options{}, strings.Repeat(goodLine+"\n", 3)+parts)
		require.NoError(t, err)
		require.EqualValues(t, 1, stats.Skipped, reason)
		require.Equal(t, reason, stats.FirstSkipped.Reason)
	}
}

func TestEachPrefixHasItsClient(t *testing.T) {
	tracetest.Answers(t, "testdata/prefixes.txt", func(prefix string) string {
		entries, stats, err := readText(t, Options{Fields: IP | User | Host | Forwarded}, strings.Replace(goodLine, "192.0.2.7 - ann", prefix, 1)+"\n"+goodLine)
		require.NoError(t, err)
		if stats.FirstSkipped != nil {
			return stats.FirstSkipped.Reason
		}
		return shown(entries[0])
	})
	_, stats, err := readText(t, Options{}, "node1 web1: {\"time\":1,\"ip\":\"192.0.2.7\"}\n"+goodLine)
	require.NoError(t, err)
	require.Equal(t, "no [time]", stats.FirstSkipped.Reason)
}
