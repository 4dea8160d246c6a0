package arrows

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A source is one Go file: its path, relative to the root of the repository, and its
// imports.
type source struct {
	path    string
	imports []string
}

// sources reads the imports of every Go file of the workspace at the root of fsys,
// whatever the build constraints of the file. It does not read a nested module that
// go.work does not use.
func sources(fsys fs.FS) ([]source, error) {
	modules, err := used(fsys)
	if err != nil {
		return nil, err
	}
	var found []source
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipForeign(fsys, modules, name)
		case path.Ext(name) != ".go":
			return nil
		}
		imports, err := importsOf(fsys, name)
		found = append(found, source{name, imports})
		return err
	})
	return found, err
}

// used returns the directories of the modules that go.work uses.
func used(fsys fs.FS) ([]string, error) {
	text, err := fs.ReadFile(fsys, "go.work")
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, match := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(string(text), -1) {
		modules = append(modules, path.Clean(match[1]))
	}
	return modules, nil
}

func skipForeign(fsys fs.FS, modules []string, dir string) error {
	if slices.Contains(modules, dir) {
		return nil
	}
	if base := path.Base(dir); base == "testdata" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func importsOf(fsys fs.FS, name string) ([]string, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		imports = append(imports, imported)
	}
	return imports, nil
}

// wrong lists the imports that no arrow allows, and the packages that no arrow
// names.
func wrong(module string, files []source) []string {
	var faults []string
	for _, file := range files {
		pkg := path.Dir(file.path)
		allowed, known := allowedFrom(arrows, pkg)
		if !known {
			faults = append(faults, fmt.Sprintf("%s: package %s has no arrow; add it to internal/arrows/table_test.go", file.path, pkg))
			continue
		}
		if strings.HasSuffix(file.path, "_test.go") {
			forTests, _ := allowedFrom(testArrows, pkg)
			allowed += " " + pkg + " " + forTests
		}
		for _, imported := range file.imports {
			target := strings.TrimPrefix(imported, module+"/")
			if imported == module {
				target = "."
			}
			if !standard(module, imported) && !matches(allowed, target) {
				faults = append(faults, fmt.Sprintf("%s: must not import %s", file.path, target))
			}
		}
	}
	return faults
}

func allowedFrom(table []arrow, pkg string) (to string, known bool) {
	for _, a := range table {
		if matches(a.from, pkg) {
			return a.to, true
		}
	}
	return "", false
}

// standard tells whether the import is of the standard library and open to
// everyone. The go command would look there if the first element has no dot.
// Cgo's "C" is not of it.
func standard(module, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && imported != "C" && first != "testing" && imported != module
}

func matches(patterns, pkg string) bool {
	for _, pattern := range strings.Fields(patterns) {
		prefix, below := strings.CutSuffix(pattern, "...")
		if pattern == pkg || below && strings.HasPrefix(pkg+"/", prefix) {
			return true
		}
	}
	return false
}
