//go:build linux || darwin

package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPictureIsWrittenWholeOrNotAtAll: the largest size of a file stands for a disk that has room for
// a part of the picture.
func TestPictureIsWrittenWholeOrNotAtAll(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2048, Max: before.Max}))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }()
	for _, name := range []string{"a.svg", "a.png"} {
		path := filepath.Join(t.TempDir(), name)
		exitCode, out, errs := sluice(t, "", "suggest", "--out", path)
		require.Equal(t, exitFailed, exitCode)
		require.Contains(t, errs, "--out: write "+path)
		require.Contains(t, out, "gcra 63/m", "the report is complete")
		require.NoFileExists(t, path)
	}
}
