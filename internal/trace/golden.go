package trace

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update is the -update flag of a test binary. Other programs that link this
// package get no flag.
var update = func() *bool {
	if !testing.Testing() {
		return new(bool)
	}
	return flag.Bool("update", false, "rewrite what stands right of the arrows in traces")
}()

// Updating reports whether the test binary was run with -update.
func Updating() bool { return *update }

// Test runs every trace that matches the pattern as a subtest of its own name,
// and fails for every event that is answered otherwise than its line wants. With
//
//	go test ./gcra -update
//
// it rewrites the answers instead; the rest of the files stays as it is. No match
// is a failure.
func Test(t *testing.T, pattern string) {
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
func golden(file string, update bool) ([]Difference, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := Parse(bytes.NewReader(text), file)
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
