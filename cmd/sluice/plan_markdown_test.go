package main

import (
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		shown := graphic(text)
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
		var page strings.Builder
		printMarkdownTable(&page, [][]any{{"client", "requests"}, {got, int64(1)}})
		require.True(t, table.MatchString(page.String()), "%q", page.String())
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
	out := ok(t, "", "plan", "--markdown", "--by", "user", files[0], files[1], write(t, "log|`<b>", strings.Repeat(string(line)+"\n", 9)), write(t, "b.log", log))
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
