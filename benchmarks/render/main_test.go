// The test promises that README.md is rendered from the results.
package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadmeIsRenderedFromTheResults(t *testing.T) {
	want, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	require.NoError(t, os.CopyFS(results, os.DirFS("../results")))
	t.Chdir(dir)
	require.NoError(t, render("results", "README.md"))
	got, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run `go run ./render` in the directory of the benchmarks")
}
