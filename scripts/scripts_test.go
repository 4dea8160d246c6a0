// Package scripts tests the scripts and the configuration of the linter.
//
// The tests promise that test.sh and summary.awk pass a correct module, and fail for each fault that they
// must find; that the linter refuses wrong imports; that a release can be installed, and fails before it
// creates a tag if something is wrong; and that site.sh writes a complete site.
package scripts

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	ran   = "=== RUN   TestA\n    a_test.go:1: says\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/c\n--- PASS: TestB (0.00s)\n    --- PASS: TestB/c (0.00s)\nPASS\n"
	ended = "ok  \texample.org/a\t0.1s\n"
)

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		input, shown string
		passes       bool
	}{
		"all passed":        {input: ran + ended, shown: ended + "3 passed, 0 failed, 0 skipped\n", passes: true},
		"nothing at all":    {input: "", shown: "too few tests passed: 0, want at least 3\n"},
		"too few subtests":  {input: "--- PASS: TestA (0.00s)\n--- PASS: TestB (0.00s)\n" + ended, shown: ended + "too few tests passed: 2, want at least 3\n"},
		"too few functions": {input: "--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)\n    --- PASS: TestA/c (0.00s)\n" + ended, shown: ended + "too few tests passed: 1 of the 2 that the test files declare\n"},
		"an example is not a test function": {
			input: "--- PASS: TestA (0.00s)\n--- PASS: ExampleA (0.00s)\n--- PASS: ExampleB (0.00s)\n" + ended,
			shown: ended + "too few tests passed: 1 of the 2 that the test files declare\n",
		},
		"a failed test": {
			input: ran + "=== RUN   TestC\n    a_test.go:9: wrong\n--- FAIL: TestC (0.00s)\nFAIL\nFAIL\texample.org/a\t0.1s\nFAIL\n",
			shown: "    a_test.go:9: wrong\n--- FAIL: TestC (0.00s)\nFAIL\nFAIL\texample.org/a\t0.1s\nFAIL\n",
		},
		"a package that does not build": {
			input: ran + ended + "FAIL\texample.org/b [build failed]\nFAIL\n",
			shown: ended + "FAIL\texample.org/b [build failed]\nFAIL\n",
		},
		"a skipped test": {
			input: ran + "=== RUN   TestC\n    a_test.go:9: no server\n--- SKIP: TestC (0.00s)\n" + ended,
			shown: ended + "tests that did not run:\n    a_test.go:9: no server\n--- SKIP: TestC (0.00s)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command("awk", "-v", "least=3", "-v", "declared=2", "-f", "summary.awk")
			command.Stdin = bytes.NewBufferString(c.input)
			out, err := command.CombinedOutput()
			require.Equal(t, c.passes, err == nil, "%v", err)
			require.Equal(t, c.shown, string(out))
		})
	}
}

// sound is a module without faults.
var sound = map[string]string{
	"go.mod":         "module example.org/sound\n\ngo 1.25\n",
	"a.go":           "package sound\n",
	"a_test.go":      "package sound\n\nimport \"testing\"\n\nfunc TestA(*testing.T) {}\n\nfunc FuzzA(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n",
	"b/b.go":         "package b\n",
	"b/b_test.go":    "package b_test\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) { m.Run() }\n\nfunc TestB(*testing.T) {}\n",
	"b/figs_test.go": "//go:build figures\n\npackage b\n\nimport \"testing\"\n\nfunc TestFigures(*testing.T) {}\n",
}

// inModule runs a bash command, which can use the functions of test.sh, in the sound module with
// some files replaced.
func inModule(t *testing.T, files map[string]string, command string) (shown string, err error) {
	t.Helper()
	module := t.TempDir()
	all := maps.Clone(sound)
	maps.Copy(all, files)
	for name, text := range all {
		path := filepath.Join(module, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	script, err := filepath.Abs("test.sh")
	require.NoError(t, err)
	bash := exec.Command("bash", "-c", "source \"$1\"\ncd \"$2\"\n"+command, "bash", script, module)
	bash.Env = append(os.Environ(), "GOWORK=off", "FUZZ_INPUTS=1000")
	out, err := bash.CombinedOutput()
	return string(out), err
}

func TestMissingProgramsAreNamed(t *testing.T) {
	shown, err := inModule(t, nil, "(PATH=/nonexistent; missing)")
	require.NoError(t, err, shown)
	for _, name := range []string{"redis-server", "hey", "curl", "chromium", "git"} {
		require.Contains(t, "\n"+shown, "\n"+name+"\n")
	}
}

func TestSoundModulePasses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that run the go command")
	}
	t.Parallel()
	shown, err := inModule(t, nil, "check . 3; fuzz .")
	require.NoError(t, err, shown)
	require.Contains(t, shown, "3 passed, 0 failed, 0 skipped")
	require.Regexp(t, `(?m)^ok  \t.*\tFuzzA$`, shown)
}

func TestMarksOfAMergeConflictAreFound(t *testing.T) {
	shown, err := inModule(t, nil, "formatted")
	require.NoError(t, err, shown)
	shown, err = inModule(t, map[string]string{"README.md": "one\n<<<<<<" + "< HEAD\ntwo\n"}, "formatted")
	require.Error(t, err)
	require.Contains(t, shown, "marks of a merge conflict are in: ./README.md")
}

func TestCheckFails(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that run the go command")
	}
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"too few tests": {"a_test.go", "package sound\n", "too few tests passed: 1, want at least 3"},
		"tests that TestMain does not run": {
			"b/b_test.go", "package b\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(0) }\n\nfunc TestB(*testing.T) {}\n\nfunc TestC(t *testing.T) {}\n",
			"too few tests passed",
		},
		"a package that go list refuses": {"b/c.go", "package c\n", "found packages b (b.go) and c (c.go)"},
		"a failed test":                  {"a_test.go", "package sound\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Error(\"wrong\") }\n", "wrong"},
		"a data race": {
			"a_test.go", "package sound\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tn, done := 0, make(chan bool)\n\tgo func() { n++; close(done) }()\n\tn++\n\t<-done\n}\n",
			"DATA RACE",
		},
		"a skipped test": {"a_test.go", "package sound\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Skip(\"no server\") }\n", "no server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, err := inModule(t, map[string]string{c.file: c.text}, "check . 3")
			require.Error(t, err, shown)
			require.Contains(t, shown, c.want)
		})
	}
}

func TestAllModulesAreCheckedAfterAFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that run the go command")
	}
	t.Parallel()
	files := map[string]string{"one/a_test.go": "package one\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Error(\"wrong\") }\n"}
	for _, name := range []string{"two", "three"} {
		files[name+"/a_test.go"] = sound["a_test.go"]
	}
	for _, name := range []string{"one", "two", "three"} {
		files[name+"/go.mod"] = "module example.org/" + name + "\n\ngo 1.25\n"
	}
	shown, err := inModule(t, files, "in_pairs check one two three; echo unreached")
	require.Error(t, err, shown)
	require.Contains(t, shown, "check failed in one of one two three")
	require.Equal(t, 2, strings.Count(shown, "2 passed, 0 failed, 0 skipped"), shown)
	require.NotContains(t, shown, "unreached")
}

func TestFuzzFails(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that run the go command")
	}
	for name, c := range map[string]struct {
		files         map[string]string
		command, want string
	}{
		"a module that go list refuses":           {map[string]string{"b/c.go": "package c\n"}, "fuzz .", "cannot list the fuzz targets of ."},
		"a time in place of the number of inputs": {nil, "FUZZ_INPUTS=5s; fuzz .", "FUZZ_INPUTS=5s is not a number"},
		"a target that fails": {
			map[string]string{"a_test.go": "package sound\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, b []byte) {\n\t\tif len(b) > 2 {\n\t\t\tt.Error(\"too long\")\n\t\t}\n\t})\n}\n"},
			"fuzz .", "FuzzA failed in ",
		},
		// About one input of 256 hangs. The go command then waits for 10 seconds.
		"a target that hangs": {
			map[string]string{"a_test.go": "package sound\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc FuzzA(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, b []byte) {\n\t\tif len(b) > 0 && b[0] == 'x' {\n\t\t\ttime.Sleep(time.Hour)\n\t\t}\n\t})\n}\n"},
			"FUZZ_INPUTS=20000; fuzz .", "fuzzing process hung or terminated unexpectedly",
		},
		"a target that does not compile": {
			map[string]string{"a_test.go": "package sound\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) { missing() }\n"},
			"fuzz .", "cannot build the fuzz targets of ",
		},
		"a target that runs nothing": {
			map[string]string{"a_test.go": "package sound\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) {}\n"},
			"fuzz .", "FuzzA failed in ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, err := inModule(t, c.files, c.command)
			require.Error(t, err, shown)
			require.Contains(t, shown, c.want)
		})
	}
}
