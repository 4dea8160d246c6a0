package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWithoutCgoOnlySQLiteIsMissing builds the program without C.
func TestWithoutCgoOnlySQLiteIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips tests that build the program")
	}
	program := filepath.Join(t.TempDir(), "sluice")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	serve := exec.Command(program, "serve", "--limit", "gcra 1/s", "--store", "sqlite:limits.db")
	out, err = serve.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "sluice: --store sqlite:limits.db: this program was built with CGO_ENABLED=0, so it has no SQLite; "+
		"build it with CGO_ENABLED=1 and a C compiler, or use another store\n", string(out))
	require.Equal(t, 2, serve.ProcessState.ExitCode())

	out, err = exec.Command(program, "check", filepath.Join("..", "..", "examples", "limits.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
