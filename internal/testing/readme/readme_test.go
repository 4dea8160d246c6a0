// Package readme tests the README and the pages in docs.
//
// The tests promise:
//
//   - Each block of Go code is in a test or an example of this repository, so it compiles. Each example
//     has an Output comment, so it runs (readme_test.go, examples_test.go).
//   - Each policy that the pages name can be parsed (readme_test.go). Each file that a page or a comment
//     names exists (paths_test.go).
//   - Each figure of a benchmark in a page is in the committed results (figures_test.go).
//   - The commands work, and print what the pages show (commands_test.go, serve_test.go, keys_test.go).
//     They run on databases and files that the tests create.
//   - The numbers in the tables are those that the code returns: bounds and sizes of states (tables_test.go).
package readme

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

const root = "../../.."

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

func parse(t *testing.T, spec string) algo.Policy {
	t.Helper()
	policy, err := compose.ParsePolicy(spec)
	require.NoError(t, err)
	return policy
}

// filesAt returns the text of each file that matches a pattern, by its path relative to the root.
func filesAt(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			relative, err := filepath.Rel(root, file)
			require.NoError(t, err)
			texts[filepath.ToSlash(relative)] = readFile(t, file)
		}
	}
	return texts
}

// pages returns every page that people write, and those that scripts/bench.sh writes.
func pages(t *testing.T) map[string]string {
	t.Helper()
	return filesAt(t, "*.md", "docs/*.md", "docs/workflows/*", "benchmarks/*.md", "benchmarks/compare/*.md", "benchmarks/render/*/*.md", "cmd/sluice/internal/*/help.txt")
}

// pagesWithCommands returns the text of the pages whose commands the tests run.
func pagesWithCommands(t *testing.T) string {
	return readFile(t, root, "README.md") + readFile(t, root, "docs/recipes.md") + readFile(t, root, "docs/command.md")
}

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	specName = regexp.MustCompile("`((?:gcra|tokenbucket|fixedwindow|movingwindow) \\d[^`]*|all\\([a-z]+ \\d[^.`]*)`")
)

// Each block of Go code must be, byte for byte, in the tests of this package, in package sluice or its
// tests, or in the examples. Files that the text names must exist, and figures must be measured.
func TestPages(t *testing.T) {
	var tested strings.Builder
	for _, text := range filesAt(t, "internal/testing/readme/*_test.go", "*.go", "examples/*/*.go") {
		tested.WriteString(text)
	}
	r, blocks, specs := readRepository(t), 0, 0
	for page, text := range pages(t) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			blocks++
			if !strings.Contains(tested.String(), block[1]) {
				t.Errorf("%s has a block that is in no test and no example:\n%s", page, block[1])
			}
		}
		for _, spec := range specName.FindAllStringSubmatch(text, -1) {
			specs++
			parse(t, spec[1])
		}
		if missing := r.missingPaths(text, path.Dir(page)); len(missing) > 0 {
			t.Errorf("%s names files that do not exist: %s", page, strings.Join(missing, ", "))
		}
	}
	require.Greater(t, blocks, 10)
	require.Greater(t, specs, 10)
}
