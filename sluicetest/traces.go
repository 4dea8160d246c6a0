package sluicetest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/trace"
)

// Traces runs every trace that matches the pattern of [filepath.Glob], as a subtest with the name of the file:
//
//	func TestLimits(t *testing.T) { sluicetest.Traces(t, "testdata/*.trace") }
//
// A subtest fails with a diff if a decision differs from the trace, or if an event has none. Traces fails if no file matches. To
// write the actual decisions into the files instead, run
//
//	SLUICE_UPDATE=1 go test ./limits
func Traces(t *testing.T, pattern string) {
	t.Helper()
	variable := os.Getenv("SLUICE_UPDATE")
	update, err := strconv.ParseBool(cmp.Or(variable, "0"))
	if err != nil {
		t.Fatalf("sluicetest: SLUICE_UPDATE is %q; want 1 to rewrite the traces, or 0", variable)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("sluicetest: pattern %q: %v", pattern, err)
	}
	if len(files) == 0 {
		dir, _ := os.Getwd()
		t.Fatalf("sluicetest: no file matches %q in %s; a test runs in the directory of its package", pattern, dir)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			if err := runFile(t, file, update); err != nil {
				t.Error(err)
			}
		})
	}
}

// runFile checks a file, or rewrites it.
func runFile(t *testing.T, file string, update bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := trace.Parse(bytes.NewReader(text), file)
	switch {
	case err != nil:
		return err
	case update:
		return rewrite(t, file, text, parsed)
	}
	return check(file, parsed)
}

// check returns an error if a decision differs from the trace.
func check(file string, t *trace.Trace) error {
	d, err := t.Diff()
	if err != nil || d.Events == 0 {
		return err
	}
	return fmt.Errorf("%s:%d: %d of %d events got other decisions than the trace has; if they are right, run the test with SLUICE_UPDATE=1\n%s",
		file, d.Line, d.Events, t.Events(), strings.TrimSuffix(d.Text, "\n"))
}

// rewrite writes the actual decisions into the file, unless it has them.
func rewrite(t *testing.T, file string, text []byte, parsed *trace.Trace) error {
	ran, err := parsed.Run()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := ran.Format(&out); err != nil || bytes.Equal(out.Bytes(), text) {
		return err
	}
	t.Logf("rewrote %s", file)
	return os.WriteFile(file, out.Bytes(), 0o644)
}
