package readme

import (
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The go command compiles an example without an Output comment, but never runs it.
func TestEveryExampleRuns(t *testing.T) {
	read := 0
	for name := range readRepository(t).paths {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		read++
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(root, name), nil, parser.ParseComments)
		require.NoError(t, err)
		for _, example := range doc.Examples(file) {
			require.True(t, example.Output != "" || example.EmptyOutput, "%s: Example%s has no Output comment, so the go command never runs it", name, example.Name)
		}
	}
	require.Greater(t, read, 100)
}
