package plan

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// FuzzMarkdownCode: whatever the text is, the result is one element of code in one table cell, and
// shows the text.
func FuzzMarkdownCode(f *testing.F) {
	for _, text := range []string{"192.0.2.1", "", " ", "a|b", "a`b", "``", `a\|b`, `\`, "<script>", "</code>", "&amp;", "&#124;", "a\nb", "\r", "\x1b[2J", "\u202e", "\xff", "\ufffd", "@ann", "#1",
		"www.example.com", "https://example.com", "[a](b)", "![](c)", "**a**", "é", "日本", " a ", "\u00a0", "\u2028", "--", "~~a~~", "$a$", ":smile:"} {
		f.Add(text)
	}
	entities := regexp.MustCompile(`^(?:&#[0-9]{2,3};|[0-9A-Za-z]|[^\x00-\x7f])+$`)
	table := regexp.MustCompile(`^\n\| client \| requests \|\n\| --- \| ---: \|\n\| [^|\n]+ \| 1 \|\n$`)
	f.Fuzz(func(t *testing.T, text string) {
		text = text[:min(len(text), 1000)]
		got := markdownCode(text)
		shown := readable.Cut(readable.Graphic(text), maxMarkdownText)
		switch {
		case got == "-":
			require.Empty(t, strings.Trim(text, " "))
		case strings.HasPrefix(got, "`"):
			require.Equal(t, "`"+shown+"`", got)
			require.False(t, strings.ContainsAny(shown, "`|\\<>&\r\n"), "%q", got)
			require.Equal(t, strings.Trim(shown, " "), shown)
		default:
			code, ok := strings.CutPrefix(got, "<code>")
			require.True(t, ok, got)
			code, ok = strings.CutSuffix(code, "</code>")
			require.True(t, ok, got)
			require.Equal(t, shown, html.UnescapeString(code))
			require.True(t, entities.MatchString(code), "%q", got)
		}
		page := markdownTables("\nclient\trequests\n" + got + "\t1\n")
		require.True(t, table.MatchString(page), "%q", page)
	})
}

// hostileText breaks Markdown tables, code and HTML if it is not escaped.
const hostileText = "a|b`c</code></pre><img src=x onerror=alert(1)>\\|@ann\n| x | y |\n"

func TestMarkdownOfHostileText(t *testing.T) {
	line, err := json.Marshal(map[string]any{"time": 946684800, "user": hostileText, "ip": "192.0.2.1"})
	require.NoError(t, err)
	log := hostileText + string(line) + "\n" + string(line) + "\n" + string(line) + "\n"
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "a|b`c<b>.yaml"), filepath.Join(dir, "n|b`c<b>.yaml")}
	for i, policy := range []string{"fixedwindow 2/m", "fixedwindow 1/m"} {
		require.NoError(t, os.WriteFile(files[i], []byte("rules: [{name: a_b_c, policy: "+policy+", by: user, paths: [/, '/a|`<b>_']}]"), 0o600))
	}
	out := clitest.Ok(t, "", "plan", "--markdown", "--by", "user", files[0], files[1], clitest.Write(t, "log|`<b>", strings.Repeat(string(line)+"\n", 9)), clitest.Write(t, "b.log", log))
	body, rest, found := strings.Cut(out, "<pre>\n")
	require.True(t, found)
	require.NotContains(t, body, "<b>")
	require.NotContains(t, body, "<img")
	require.NotContains(t, body, "@ann")
	columns := 0
	for line := range strings.Lines(body) {
		bars := strings.Count(line, "|")
		if columns > 0 && bars > 0 {
			require.Equal(t, columns, bars, line)
		}
		columns = bars
	}
	require.Equal(t, 1, strings.Count(rest, "</pre>"), "the log's text cannot end the element")
	require.NotContains(t, rest, "<b>")
	require.NotContains(t, rest, "<img")
}

// TestMarkdownFitsIntoAComment: GitHub refuses a comment of more than 65,536 characters.
func TestMarkdownFitsIntoAComment(t *testing.T) {
	const rules, clients = 100, 200
	long := strings.Repeat("<|`&é", 20)
	path := func(i int) string { return fmt.Sprintf("/%d/<|`&é", i) }
	file := func(policy string) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range rules {
			paths, err := json.Marshal([]string{path(i), path(i) + policy})
			require.NoError(t, err)
			fmt.Fprintf(&b, "- {name: rule-%03d-%s, policy: %s, by: [user, path], paths: %s}\n", i, strings.Repeat("x", 50), policy, paths)
		}
		return b.String()
	}
	var log strings.Builder
	line := func(user string, path string) {
		text, err := json.Marshal(map[string]any{"time": 946684800, "ip": "192.0.2.1", "user": user, "path": path})
		require.NoError(t, err)
		log.Write(append(text, '\n'))
	}
	for i := range clients {
		for range 2 {
			line(fmt.Sprint(long, i), path(i%(rules-1)))
		}
	}
	for range 99 { // the last rule denies the most requests
		line("ann", path(rules-1))
	}
	dir := t.TempDir()
	for name := range 12 { // a long path
		dir = filepath.Join(dir, strings.Repeat("<|`&", 25)+fmt.Sprint(name))
	}
	require.NoError(t, os.MkdirAll(dir, 0o700))
	files := []string{filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")}
	for i, policy := range []string{"fixedwindow 9/h", "fixedwindow 1/h"} {
		require.NoError(t, os.WriteFile(files[i], []byte(file(policy)), 0o600))
	}
	out := clitest.Ok(t, log.String(), "plan", "--markdown", "--top", "100000", "--by", "user", files[0], files[1], "-")
	require.Less(t, len(out), 65_536)
	shown := strings.Count(out, "\n| `rule-")
	require.Positive(t, shown)
	require.Contains(t, out, fmt.Sprintf("\nNot shown, because the table would be too long: %d rules.\n", rules-shown))
	require.Contains(t, out, "\n| `rule-099-", "the rule whose decisions change most is shown")
	require.Contains(t, out, "\n| `ann` |")
	denied := strings.Count(out, " | 1 | 2 | 0 |\n") + 1
	require.Contains(t, out, fmt.Sprintf("\nNot shown, because the table would be too long: %d clients.\n", clients+1-denied))
}

// TestMarkdownReportsHowManyLinesOfTheLogAreLeftOut: each damaged log is a line.
func TestMarkdownReportsHowManyLinesOfTheLogAreLeftOut(t *testing.T) {
	text := markdownLog(strings.Repeat(strings.Repeat("<", 600)+"\n", 9))
	require.Less(t, len(text), maxMarkdownLog+100)
	require.Equal(t, strings.Repeat("&lt;", maxMarkdownText-1)+"…\n", text[:strings.IndexByte(text, '\n')+1])
	require.True(t, strings.HasSuffix(text, "\nnot shown: 7 lines\n"), text)
	require.Equal(t, "a &lt; b\nc\n", markdownLog("a < b\nc\n"))
}
