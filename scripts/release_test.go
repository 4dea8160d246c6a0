// Package scripts tests the scripts. A release can be installed, and fails before it creates a tag if something is
// wrong. Package browsertest tests site.sh.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "github.com/sluice-go/sluice"

// A repository is a copy of the working tree, with one commit.
type repository struct {
	t   *testing.T
	dir string
	env []string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips tests that run the go command")
	}
	dir := t.TempDir()
	out, err := exec.Command("bash", "-c", `tar -C .. --exclude=./.git -cf - . | tar -C "$0" -xf -`, dir).CombinedOutput()
	require.NoError(t, err, string(out))
	r := repository{t: t, dir: dir, env: append(os.Environ(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")}
	r.edit("CHANGELOG.md", "## [Unreleased]", "## [Unreleased]\n\n## [0.98.7]")
	r.git("init", "-q", ".")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "all")
	return r
}

func (r repository) edit(name, old, changed string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	text, err := os.ReadFile(path)
	require.NoError(r.t, err)
	require.Contains(r.t, string(text), old)
	require.NoError(r.t, os.WriteFile(path, []byte(strings.Replace(string(text), old, changed, 1)), 0o644))
}

func (r repository) run(env []string, name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	command.Dir, command.Env = r.dir, append(r.env[:len(r.env):len(r.env)], env...)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r repository) git(arguments ...string) string {
	r.t.Helper()
	out, err := r.run(nil, "git", arguments...)
	require.NoError(r.t, err, out)
	return out
}

// install runs go install -n with the tags of the repository. It compiles nothing.
func (r repository) install(version string) (string, error) {
	r.t.Helper()
	goEnv, err := r.run(nil, "go", "env", "GOMODCACHE", "GOPROXY")
	require.NoError(r.t, err, goEnv)
	cache, proxy, _ := strings.Cut(goEnv, "\n")
	return r.run([]string{
		"GOWORK=off", "GOPRIVATE=" + root, "GOSUMDB=off", "GOFLAGS=-modcacherw",
		"GOMODCACHE=" + r.t.TempDir(), "GOPROXY=file://" + cache + "/cache/download," + proxy,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + r.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
	}, "go", "install", "-n", root+"/cmd/sluice@"+version)
}

func TestReleaseCanBeInstalled(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	branch := r.git("rev-parse", "HEAD")
	r.git("tag", "v0.98.6")
	r.git("tag", "observe/v0.98.6")
	r.git("tag", "cmd/sluice/v0.98.6")
	out, err := r.install("v0.98.6")
	require.Error(t, err, "a commit of the branch cannot be installed")
	require.Contains(t, out, "replace directives")

	out, err = r.run(nil, "scripts/release.sh", "v0.98.7")
	require.NoError(t, err, out)
	require.Contains(t, out, "git push origin v0.98.7 observe/v0.98.7 observe/otel/v0.98.7 cmd/sluice/v0.98.7")
	out, err = r.install("v0.98.7")
	require.NoError(t, err, out)

	require.Equal(t, branch, r.git("rev-parse", "HEAD"), "the branch does not move")
	require.Empty(t, r.git("status", "--porcelain"))
	require.Len(t, strings.Split(r.git("worktree", "list"), "\n"), 1)
	release := r.git("rev-parse", "v0.98.7")
	for _, module := range []string{"observe", "observe/otel", "cmd/sluice"} {
		require.Equal(t, release, r.git("rev-parse", module+"/v0.98.7"))
		text := r.git("show", "v0.98.7:"+module+"/go.mod")
		require.NotContains(t, text, "replace")
		require.Contains(t, text, "\t"+root+" v0.98.7\n")
	}
	require.Contains(t, r.git("show", "v0.98.7:cmd/sluice/go.mod"), "\t"+root+"/observe v0.98.7\n")
}

func TestReleaseFails(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	failsWith := func(version, want string) {
		t.Helper()
		tags := r.git("tag")
		out, err := r.run(nil, "scripts/release.sh", version)
		require.Error(t, err, out)
		require.Contains(t, out, want)
		require.Equal(t, tags, r.git("tag"), "no tag is left behind")
	}
	failsWith("", `version "" is not valid; use a version such as v0.2.0`)
	failsWith("0.98.7", `version "0.98.7" is not valid`)
	failsWith("v0.98", `version "v0.98" is not valid`)
	failsWith("v2.0.0", `version "v2.0.0" is not valid`)
	failsWith("v0.98.8", `CHANGELOG.md has no section "## [0.98.8]"`)

	r.git("tag", "observe/v0.98.7")
	failsWith("v0.98.7", "tag observe/v0.98.7 exists")
	r.git("tag", "-d", "observe/v0.98.7")

	r.edit("README.md", "# ", "# Our ")
	failsWith("v0.98.7", "the working tree has uncommitted changes")
	r.git("checkout", "-q", "README.md")

	r.edit("observe/go.mod", "replace "+root+" =>", "replace "+root+" v0.0.0 =>")
	r.git("commit", "-q", "-a", "-m", "replace in another way")
	failsWith("v0.98.7", "observe still replaces a module")
}

// The workspace has no benchmarks, because their requirements would raise versions.
func TestWorkspaceHasAllOtherModules(t *testing.T) {
	shown, err := exec.Command("bash", "-c", "cd ..; find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -printf '%h\n' | sort").Output()
	require.NoError(t, err)
	text, err := os.ReadFile("../go.work")
	require.NoError(t, err)
	want := []string{"."}
	for _, module := range strings.Fields(string(shown)) {
		if module != "./benchmarks" {
			want = append(want, module)
		}
	}
	_, list, _ := strings.Cut(string(text), "use (")
	list, _, _ = strings.Cut(list, ")")
	require.Equal(t, want, strings.Fields(list))
}

// A user gets every requirement of the root module, whatever packages the user imports.
func TestRootRequiresOnlyDatabaseClientsAndTestify(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	var direct []string
	for _, line := range strings.Split(string(text), "\n") {
		if required, found := strings.CutPrefix(line, "\t"); found && !strings.Contains(line, "// indirect") {
			direct = append(direct, strings.Fields(required)[0])
		}
	}
	require.Equal(t, []string{
		"github.com/jackc/pgx/v5", "github.com/mattn/go-sqlite3", "github.com/redis/go-redis/v9", "github.com/stretchr/testify",
	}, direct)
}
