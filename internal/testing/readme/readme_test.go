// Package readme tests the README and the pages in docs.
//
// The tests promise:
//
//   - Each block of Go code is in a test or an example of this repository, so it compiles. Each example
//     has an Output comment, so it runs (readme_test.go, examples_test.go).
//   - Links to files are valid, and each policy that the pages name can be parsed (readme_test.go).
//     Each file that a page or a comment names exists (paths_test.go).
//   - Each figure of a benchmark in a page is in the committed results (figures_test.go).
//   - The commands work, and print what the pages show (commands_test.go, serve_test.go, keys_test.go).
//     They run on databases and files that the tests create.
//   - The numbers in the tables are those that the code returns: bounds, sizes of states, and the
//     policies that have no program (bounds_test.go, sizes_test.go, programs_test.go).
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

const root = "../../.."

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

// pages are the pages that the tests check.
var pages = []string{"README.md", "docs/recipes.md", "docs/command.md", "docs/promises.md", "docs/keys.md", "docs/policies.md", "docs/operation.md"}

// pagesWithCommands returns the text of the pages whose commands the tests run.
func pagesWithCommands(t *testing.T) string {
	return readFile(t, root, "README.md") + readFile(t, root, "docs/recipes.md") + readFile(t, root, "docs/command.md")
}

// Each block of Go code must be, byte for byte, in the tests of this package, in package sluice or its
// tests, or in the examples.
func TestGoCodeOfThePagesIsTested(t *testing.T) {
	var tested strings.Builder
	for _, pattern := range []string{"*_test.go", filepath.Join(root, "*.go"), filepath.Join(root, "examples/*/*.go")} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			tested.WriteString(readFile(t, f))
		}
	}
	found := 0
	for _, page := range pages {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readFile(t, root, page), -1)
		for _, b := range blocks {
			found++
			if !strings.Contains(tested.String(), b[1]) {
				t.Errorf("%s has a block that is in no test and no example:\n%s", page, b[1])
			}
		}
	}
	require.Greater(t, found, 10)
}

func TestLinkedFilesExist(t *testing.T) {
	for _, page := range pages {
		links := regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`).FindAllStringSubmatch(readFile(t, root, page), -1)
		require.NotEmpty(t, links)
		for _, link := range links {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(page), link[1]))
			require.NoError(t, err, page)
		}
	}
}

func TestSpecsInThePagesAreValid(t *testing.T) {
	for _, page := range []string{"README.md", "docs/recipes.md", "docs/policies.md"} {
		specs := regexp.MustCompile("`((?:gcra|tokenbucket|fixedwindow|movingwindow) \\d[^`]*|all\\([^.`]*)`").FindAllStringSubmatch(readFile(t, root, page), -1)
		require.NotEmpty(t, specs, page)
		for _, spec := range specs {
			_, err := compose.ParsePolicy(spec[1])
			require.NoError(t, err)
		}
	}
}
