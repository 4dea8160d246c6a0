// The tests promise that each area shows its limits and whether each goal is met, and that README.md is
// rendered from the results.
package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/benchmarks/figure"
)

// page renders areas with one goal, which is met or missed.
func page(t *testing.T, met bool, areas ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for _, area := range areas {
		ratio := 1.0
		if met {
			ratio = 3
		}
		require.NoError(t, figure.Result{
			Area: area, Setup: "Measured somehow.",
			Figures: []figure.Figure{{Work: "work", Name: "sluice", Value: 1, Unit: "/s", Ours: true}},
			Goals:   []figure.Goal{{Work: "work", To: "a peer", What: "decisions", Ratio: ratio, Goal: 2}},
		}.Write(dir))
	}
	path := filepath.Join(dir, "README.md")
	if err := render(dir, path); err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

func TestEveryAreaShowsTheLimitsOfItsFigures(t *testing.T) {
	for _, area := range areas {
		limits, err := texts.ReadFile("limits/" + area.name + ".md")
		require.NoError(t, err)
		for _, met := range []bool{true, false} {
			text, err := page(t, met, area.name)
			require.NoError(t, err)
			require.Contains(t, text, "\n### Limits of these figures\n\n"+string(limits))
			require.Contains(t, text, "Measured somehow.")
			require.Equal(t, !met, strings.Contains(text, "**missed**"))
			if why, err := texts.ReadFile("why/" + area.name + ".md"); err == nil {
				require.Contains(t, text, "\n### Where the time goes\n\n"+string(why))
			}
		}
	}
}

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
