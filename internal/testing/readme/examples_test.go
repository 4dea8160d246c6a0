package readme

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The go command compiles an example without an Output comment, but never runs it.
func TestEveryExampleRuns(t *testing.T) {
	read := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(name); entry.IsDir() && len(base) > 1 && (base == "testdata" || strings.ContainsAny(base[:1], "._")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, "_test.go") {
			read++
			for _, example := range withoutOutput(t, path.Join(root, name), nil) {
				t.Errorf("%s: Example%s has no Output comment, so the go command never runs it", name, example)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, read, 100)
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
	require.Equal(t, []string{"Idle"}, withoutOutput(t, "p_test.go", text))
}

// withoutOutput lists the examples of a file that have no Output comment. It reads the file unless its text is
// given.
func withoutOutput(t *testing.T, name string, text any) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	require.NoError(t, err)
	for _, example := range doc.Examples(file) {
		if example.Output == "" && !example.EmptyOutput {
			names = append(names, example.Name)
		}
	}
	return names
}
