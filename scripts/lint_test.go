package scripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module has one wrong import for each import rule of .golangci.yml.
func TestLinterRefusesWrongImports(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips the linter")
	}
	const module = "github.com/sluice-go/sluice"
	wrong := map[string]string{ // the rule: file, and its import
		"algorithms":      "gcra/a.go storage",
		"algorithm-tests": "gcra/a_test.go storage",
		"stores":          "storage/memory/a.go compose",
		"no-client":       "httplimit/c.go storage/redis",
		"postgres":        "storage/postgres/a.go github.com/redis/fake",
		"redis":           "storage/redis/a.go github.com/jackc/fake",
		"sqlite":          "storage/sqlite/a.go github.com/jackc/fake",
		"programs":        "storage/driver/a.go gcra",
		"engine":          "internal/engine/a.go compose",
		"compose":         "compose/b.go storage",
		"root":            "a.go httplimit",
		"examples":        "examples/x/a.go internal/policy",
		"test-kits":       "httplimit/b.go internal/testing/servers",
		"testing":         "httplimit/a.go testing",
	}
	dir := t.TempDir()
	write := func(file, text string) {
		file = filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("go.mod", "module "+module+"\n\ngo 1.25.0\n\nrequire (\n\tgithub.com/redis/fake v0.0.0\n\tgithub.com/jackc/fake v0.0.0\n)\n\nreplace github.com/redis/fake => ./fake/redis\n\nreplace github.com/jackc/fake => ./fake/jackc\n")
	for _, fake := range []string{"redis", "jackc"} {
		write("fake/"+fake+"/go.mod", "module github.com/"+fake+"/fake\n\ngo 1.25.0\n")
		write("fake/"+fake+"/fake.go", "package fake\n")
	}
	for _, name := range strings.Fields("gcra storage storage/memory storage/postgres storage/redis storage/sqlite compose httplimit internal/engine internal/policy internal/testing/servers storage/driver examples/x") {
		write(name+"/doc.go", "package "+filepath.Base(name)+"\n")
	}
	for _, fault := range wrong {
		file, imported, _ := strings.Cut(fault, " ")
		if imported != "testing" && !strings.Contains(imported, ".") {
			imported = module + "/" + imported
		}
		name := filepath.Base(filepath.Dir(file))
		if name == "." {
			name = "sluice"
		}
		write(file, fmt.Sprintf("package %s\n\nimport _ %q\n", name, imported))
	}
	config, err := os.ReadFile("../.golangci.yml")
	require.NoError(t, err)
	write(".golangci.yml", string(config))

	script, err := os.ReadFile("test.sh")
	require.NoError(t, err)
	linter := regexp.MustCompile(`(?m)^LINTER=(\S+)$`).FindSubmatch(script)
	require.NotNil(t, linter)
	command := exec.Command("go", "run", string(linter[1]), "run", "--enable-only", "depguard", "./...")
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.Error(t, err, "%s", out)
	rules := regexp.MustCompile(`(?m)^        ([a-z-]+):$`).FindAllStringSubmatch(string(config), -1)
	require.Len(t, rules, len(wrong), "a wrong import for each rule")
	for _, rule := range rules {
		file, _, _ := strings.Cut(wrong[rule[1]], " ")
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(file)+`:3:8: import .* is not allowed from list '`+rule[1]+`'`, string(out))
	}
}

func TestLinterFails(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips the linter")
	}
	config, err := os.ReadFile("../.golangci.yml")
	require.NoError(t, err)
	shown, err := inModule(t, map[string]string{".golangci.yml": string(config)}, "lint .")
	require.NoError(t, err, shown)

	refuses := func(files map[string]string, faults ...string) {
		files[".golangci.yml"] = string(config)
		shown, err := inModule(t, files, "lint .")
		require.Error(t, err, shown)
		for _, fault := range append(faults, "the linter found faults in .") {
			require.Contains(t, shown, fault)
		}
	}
	refuses(map[string]string{
		"a.go":           "package sound\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc F() {\n\tos.Chdir(\"/\")\n\tfmt.Printf(\"%d\", \"x\")\n}\n",
		"b/figs_test.go": "//go:build figures\n\npackage b\n\nimport \"fmt\"\n\nfunc Figures() { fmt.Printf(\"%t\", \"x\") }\n",
	}, "Error return value of `os.Chdir` is not checked", `fmt.Printf format %d has arg "x" of wrong type string`, `fmt.Printf format %t has arg "x" of wrong type string`)
	refuses(map[string]string{"b/figs_test.go": "//go:build figures\n\npackage b\n\nvar _ = missing\n"}, "undefined: missing")
}
