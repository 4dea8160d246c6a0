// Package tracetest runs traces and other golden files as tests. It adds the flag -update to tests that import it. It is
// not part of package trace, so that programs that read traces do not link package testing.
package tracetest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/trace"
)

var update = flag.Bool("update", false, "rewrite golden files; in traces, the text right of the arrows")

// Run runs every trace that matches the pattern as a subtest with the file's name. It fails for
// every event whose decisions differ from its line. With
//
//	go test ./gcra -update
//
// it rewrites only the answers instead. It fails if no file matches.
func Run(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces at %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			differences, err := golden(file, *update)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range differences {
				t.Error(d)
			}
		})
	}
}

// golden checks one file, or rewrites it.
func golden(file string, update bool) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := trace.Parse(bytes.NewReader(text), file)
	if err != nil {
		return nil, err
	}
	if !update {
		return t.Check()
	}
	ran, err := t.Run()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := ran.Format(&out); err != nil || bytes.Equal(out.Bytes(), text) {
		return nil, err
	}
	return nil, os.WriteFile(file, out.Bytes(), 0o644)
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

// Answers requires the answers of a golden file. A line that begins with a quotation mark is a question as a Go string, an
// arrow and the answer. Other lines are comments.
func Answers(t *testing.T, file string, answer func(question string) string) {
	t.Helper()
	committed, err := os.ReadFile(file)
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(committed)) {
		if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
			question, _ := strconv.Unquote(quoted)
			line = strings.TrimRight(quoted+" -> "+answer(question), " ") + "\n"
		}
		text.WriteString(line)
	}
	Golden(t, file, text.String())
}
