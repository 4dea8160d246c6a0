package readme

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
