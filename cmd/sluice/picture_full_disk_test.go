//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPictureIsWrittenWholeOrNotAtAll: a limit on the size of files has the effect of a disk with room for
// a part of the picture. The limit holds for a process of its own, because go test writes the names of
// opened files into a file too.
func TestPictureIsWrittenWholeOrNotAtAll(t *testing.T) {
	const limited = "SLUICE_TEST_LIMITED"
	if os.Getenv(limited) == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), limited+"=yes")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2048, Max: before.Max}))
	for _, name := range []string{"a.svg", "a.png"} {
		path := filepath.Join(t.TempDir(), name)
		exitCode, out, errs := sluice(t, fourLines, "suggest", "-p", "gcra ?/m", "--out", path, "-")
		require.Equal(t, exitFailed, exitCode)
		require.Contains(t, errs, "--out: write "+path)
		require.Contains(t, out, "gcra 3/m", "the report is complete")
		require.NoFileExists(t, path)
	}
}
