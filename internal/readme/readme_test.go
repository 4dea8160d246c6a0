package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

// TestGoCodeIsTested finds every block of Go in the README, letter for letter, in the
// tests of this package.
func TestGoCodeIsTested(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tested strings.Builder
	for _, f := range files {
		tested.WriteString(readFile(t, f))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readFile(t, root, "README.md"), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		require.Contains(t, tested.String(), b[1])
	}
}

// TestLinksLeadSomewhere follows the links to files of the repository.
func TestLinksLeadSomewhere(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readFile(t, root, "README.md"), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		_, err := os.Stat(filepath.Join(root, link[1]))
		require.NoError(t, err)
	}
}
