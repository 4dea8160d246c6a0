// Package tracetest runs traces and other golden files as tests. It adds the flag -update to tests that import it.
package tracetest

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/sluicetest"
)

var update = flag.Bool("update", false, "rewrite golden files; in traces, the text right of the arrows")

// Run runs traces as sluicetest.Traces does. With
//
//	go test ./gcra -update
//
// it rewrites the answers instead.
func Run(t *testing.T, pattern string) {
	t.Helper()
	if *update {
		t.Setenv("SLUICE_UPDATE", "1")
	}
	sluicetest.Traces(t, pattern)
}

// Golden requires that a file has this text. With -update it writes the file instead.
func Golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	committed, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(committed), text, "run this test with -update")
}

// Answers requires the answers of a golden file. A line that begins with a quotation mark or a backquote is a question as a
// Go string, an arrow and the answer. A line that begins with a tab continues the answer. Other lines are comments.
func Answers(t *testing.T, file string, answer func(question string) string) {
	t.Helper()
	committed, err := os.ReadFile(file)
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(committed)) {
		if line[0] == '\t' {
			continue
		}
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] != '\'' {
			question, _ := strconv.Unquote(quoted)
			line = quoted + " -> " + strings.ReplaceAll(answer(question), "\n", "\n\t")
			line = strings.TrimRight(strings.Replace(line, " -> \n", " ->\n", 1), " ") + "\n"
		}
		text.WriteString(line)
	}
	Golden(t, file, text.String())
}
