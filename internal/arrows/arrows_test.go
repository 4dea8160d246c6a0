package arrows

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sluice-go/sluice"

var root = os.DirFS("../..")

func TestEveryImportFollowsAnArrow(t *testing.T) {
	files, err := sources(root)
	require.NoError(t, err)
	for _, read := range []string{"algo/limit.go", "cmd/sluice/main.go", "observe/metrics.go", "internal/fleet/doc.go"} {
		require.Contains(t, pathsOf(files), read, "every module of the workspace is read")
	}
	for _, fault := range wrong(module, files) {
		t.Error(fault)
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	tests := []struct {
		file, imports string
		fault         string // "" if the import is allowed
	}{
		{"algo/limit.go", "fmt", ""},
		{"algo/limit.go", "ours/storage", "must not import storage"},
		{"algo/limit.go", "ours/gcra", "must not import gcra"},
		{"algo/limit.go", "github.com/stretchr/testify/require", "must not import github.com/stretchr/testify/require"},
		{"algo/limit.go", "C", "must not import C"},
		{"algo/limit_test.go", "github.com/stretchr/testify/require", ""},
		{"algo/limit_test.go", "ours/storage", "must not import storage"},
		{"gcra/step.go", "ours/algo", ""},
		{"gcra/step.go", "ours/internal/u128", ""},
		{"gcra/step.go", "ours/tokenbucket", "must not import tokenbucket"},
		{"gcra/step.go", "ours/compose", "must not import compose"},
		{"gcra/example_test.go", "ours/gcra", ""},
		{"gcra/trace_test.go", "ours/internal/trace/tracetest", ""},
		{"gcra/step_test.go", "ours/internal/servers", "must not import internal/servers"},
		{"storage/server.go", "ours/gcra", "must not import gcra"},
		{"storage/store.go", "ours/storage/redis", "must not import storage/redis"},
		{"storage/key_test.go", "github.com/anishathalye/porcupine", ""},
		{"storage/redis/store.go", "github.com/redis/go-redis/v9", ""},
		{"storage/redis/store.go", "github.com/redis/go-redis/v9/maintnotifications", ""},
		{"storage/redis/store.go", "github.com/redis/go-redis/v99", "must not import github.com/redis/go-redis/v99"},
		{"storage/redis/store.go", "github.com/jackc/pgx/v5", "must not import github.com/jackc/pgx/v5"},
		{"storage/redis/store.go", "ours/gcra", "must not import gcra"},
		{"storage/redis/store.go", "ours/internal/servers", "must not import internal/servers"},
		{"storage/redis/store_test.go", "ours/internal/servers", ""},
		{"compose/limiter.go", "ours/storage/redis", "must not import storage/redis"},
		{"compose/limiter.go", "github.com/spf13/cobra", "must not import github.com/spf13/cobra"},
		{"cmd/sluice/main.go", "github.com/spf13/cobra", ""},
		{"cmd/sluice/main.go", "ours/internal/servers", "must not import internal/servers"},
		{"cmd/sluice/main.go", "ours/internal/trace/tracetest", "must not import internal/trace/tracetest"},
		{"cmd/sluice/main.go", "testing", "must not import testing"},
		{"gcra/step.go", "testing/iotest", "must not import testing/iotest"},
		{"gcra/step_test.go", "testing/iotest", ""},
		{"internal/servers/redis.go", "testing", ""},
		{"internal/trace/tracetest/tracetest.go", "testing", ""},
		{"utils/utils.go", "fmt", "package utils has no arrow; add it to internal/arrows/table_test.go"},
		{"sluice.go", "ours/compose", ""},
		{"sluice.go", "ours/storage/redis", "must not import storage/redis"},
		{"sluice_test.go", "ours", ""},
		{"examples/login/login.go", "ours", ""},
		{"compose/limiter.go", "ours", "must not import ."},
	}
	for _, test := range tests {
		t.Run(test.file+" "+test.imports, func(t *testing.T) {
			imported := strings.Replace(test.imports, "ours", "example.org/m", 1)
			files, err := sources(fstest.MapFS{
				"go.work": {Data: []byte("use (\n\t.\n)\n")},
				test.file: {Data: []byte("package p\nimport " + `"` + imported + `"`)},
			})
			require.NoError(t, err)
			var want []string
			if test.fault != "" {
				want = []string{test.file + ": " + test.fault}
			}
			require.Equal(t, want, wrong("example.org/m", files))
		})
	}
}

func TestForeignFilesAreNotRead(t *testing.T) {
	workspace := &fstest.MapFile{Data: []byte("go 1.25.0\n\nuse (\n\t.\n\t./observe\n)\n")}
	files, err := sources(fstest.MapFS{
		"go.work":                 workspace,
		"algo/limit.go":           {Data: []byte("package algo")},
		"observe/go.mod":          {Data: []byte("module observe")},
		"observe/metrics.go":      {Data: []byte("package observe")},
		"algo/testdata/broken.go": {Data: []byte("not Go")},
		"benchmarks/go.mod":       {Data: []byte("module other")},
		"benchmarks/peers.go":     {Data: []byte("not Go")},
		".cache/tmp.go":           {Data: []byte("not Go")},
		"_old/old.go":             {Data: []byte("not Go")},
		"README.md":               {Data: []byte("not Go")},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"algo/limit.go", "observe/metrics.go"}, pathsOf(files))

	_, err = sources(fstest.MapFS{"go.work": workspace, "algo/limit.go": {Data: []byte("not Go")}})
	require.Error(t, err)
}

func TestEveryExampleRuns(t *testing.T) {
	files, err := sources(root)
	require.NoError(t, err)
	for _, name := range pathsOf(files) {
		if strings.HasSuffix(name, "_test.go") {
			for _, example := range compiledOnly(t, name, nil) {
				t.Errorf("%s: Example%s has no Output comment, so the go command never runs it", name, example)
			}
		}
	}
}

func TestExamplesWithoutOutputAreFound(t *testing.T) {
	const text = `package p_test

func ExampleRuns() {
	println()
	// Output: 1
}

func ExampleSilent() {
	println()
	// Output:
}

func ExampleIdle() {
	println()
}
`
	require.Equal(t, []string{"Idle"}, compiledOnly(t, "p_test.go", text))
}

// compiledOnly lists the examples of a file that have no Output comment. The
// file is read from the module unless its text is given.
func compiledOnly(t *testing.T, name string, text any) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path.Join("../..", name), text, parser.ParseComments)
	require.NoError(t, err)
	var names []string
	for _, example := range doc.Examples(file) {
		if example.Output == "" && !example.EmptyOutput {
			names = append(names, example.Name)
		}
	}
	return names
}

func pathsOf(files []source) []string {
	var paths []string
	for _, file := range files {
		paths = append(paths, file.path)
	}
	return paths
}
