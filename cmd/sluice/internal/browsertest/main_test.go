package browsertest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the screenshots of the documentation")

// scratch is the directory of the program and of the browser's profile.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "browsertest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer removeScratch()
	defer endShared()
	return m.Run()
}

// removeScratch removes the directory. The processes of the browser can still write files for a short
// time after its end.
func removeScratch() {
	for range 100 {
		if os.RemoveAll(scratch) == nil {
			return
		}
	}
}

// endShared ends the browser and the program that all tests share.
func endShared() {
	if stopBrowser != nil {
		stopBrowser()
	}
	if shared != nil {
		shared.kill()
	}
}

// need skips the test if Chromium is missing.
func need(t testing.TB) {
	t.Helper()
	var fault error
	switch {
	case testing.Short():
		fault = errors.New("tests with a browser do not run with -short")
	case chromium() == "":
		fault = errors.New("chromium is missing; scripts/test.sh installs it, or on Debian: apt-get install chromium")
	default:
		return
	}
	if os.Getenv("SLUICE_REQUIRE_SERVERS") != "" && !testing.Short() {
		t.Fatal(fault)
	}
	t.Skip(fault)
}

// chromium returns the path of the browser; empty if there is none.
func chromium() string {
	for _, name := range [...]string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// binary builds the program once, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sluice")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "../.." // the module of the command
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// sluice runs the program, and returns its output.
func sluice(t testing.TB, args ...string) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
