// Package readme tests the README and the pages in docs.
//
// The tests promise:
//
//   - Each block of Go code is in a test or an example of this repository, so it compiles. Each example
//     has an Output comment, so it runs (readme_test.go, code_test.go).
//   - Each policy that the pages name can be parsed (readme_test.go). Each file that a page or a comment
//     names exists (readme_test.go).
//   - Each figure of a benchmark in a page is in benchmarks/README.md, which a test renders from the results (figures_test.go).
//   - The commands work, and print what the pages show (commands_test.go, code_test.go).
//     They run on databases and files that the tests create.
//   - The numbers in the tables are those that the code returns: bounds and sizes of states (figures_test.go).
package readme

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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

// repository has the files of the repository.
type repository struct {
	paths map[string]bool // files and directories, relative to the root
	names map[string]bool // the last elements of the paths of files
}

func readRepository(t *testing.T) repository {
	t.Helper()
	r := repository{map[string]bool{}, map[string]bool{}}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return err
		}
		relative, err := filepath.Rel(root, file)
		r.paths[filepath.ToSlash(relative)] = true
		if !d.IsDir() {
			r.names[d.Name()] = true
		}
		return err
	}))
	return r
}

var (
	urls = regexp.MustCompile(`\b[a-z]+://[^\s)]+|\b(?:pkg\.go\.dev|www\.[\w.]+)/[^\s)]+`)
	// A word that can be a path: with slashes, or with the extension of a file of this repository.
	pathWords = regexp.MustCompile(`[\w.~@*-]+(?:/[\w.~@*-]+)+|\.?\b[\w-]+(?:\.[\w-]+)*\.(?:go|lua|sql|js|md|yaml|yml|txt|sh|awk|tmpl|json|html|css)\b`)
	sources   = regexp.MustCompile(`\.(?:go|lua|sql|js|md|yaml|yml|txt|sh|awk|tmpl|json|html|css|mod|work)$`)
)

// missingPaths returns the paths that a text names and that the repository does not have. dir is
// the directory of the text. A word with slashes is a path if its first element is in the root, or if
// it has the extension of a source file. A name without a directory must be the name of some file.
func (r repository) missingPaths(text, dir string) (missing []string) {
	text = strings.ReplaceAll(urls.ReplaceAllString(text, " "), "github.com/sluice-go/sluice/", "./")
	text = kinds.ReplaceAllString(text, " ")
	for _, word := range pathWords.FindAllString(text, -1) {
		word, _, _ = strings.Cut(word, "@") // go install ./cmd/sluice@latest
		word = strings.TrimRight(strings.TrimSuffix(word, "/..."), ".-*")
		name := strings.TrimPrefix(word, "./")
		first, _, hasDir := strings.Cut(name, "/")
		switch {
		case slices.Contains(namesOfUsers, name):
		case !hasDir && r.names[name], !hasDir && !sources.MatchString(name):
		case hasDir && !sources.MatchString(name) && (!r.paths[first] || strings.HasPrefix(word, "../")):
		case r.paths[path.Clean(name)], r.paths[path.Join(dir, word)]:
		case r.matches(name), r.matches(path.Join(dir, name)):
		default:
			missing = append(missing, word)
		}
	}
	return missing
}

func (r repository) matches(pattern string) bool {
	for p := range r.paths {
		if ok, err := path.Match(pattern, p); ok && err == nil {
			return true
		}
	}
	return false
}

// kinds are those of stacks, such as all(gcra/s,gcra/m).
var kinds = regexp.MustCompile(`all\([^)]*\)`)

// namesOfUsers are files that the pages and comments name, and that are not in this repository.
var namesOfUsers = []string{"limits.old.yaml", "RUNNER_TEMP/limits.old.yaml", "lib/wasm/wasm_exec.js"}

var comments = regexp.MustCompile(`(?m)^\s*(?://|--|#)(.*)$|\s(?://|-- )(.*)$`)

func TestPathsThatCommentsNameExist(t *testing.T) {
	r := readRepository(t)
	checked := 0
	for file := range r.paths {
		if !slices.Contains([]string{".go", ".lua", ".sql", ".sh", ".awk"}, path.Ext(file)) {
			continue
		}
		text := readFile(t, root, file)
		for _, c := range comments.FindAllStringSubmatch(text, -1) {
			checked++
			if missing := r.missingPaths(c[1]+c[2], path.Dir(file)); len(missing) > 0 {
				t.Errorf("%s: a comment names files that do not exist: %s", file, strings.Join(missing, ", "))
			}
		}
	}
	require.Greater(t, checked, 1000)
}

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
