package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckPrintsTheBoundsOfEachRule(t *testing.T) {
	for rule, want := range map[string]string{
		"policy: gcra 1000/h":                                 "at most 1000 requests in any second, 1016 in any minute, 1999 in any hour, 24999 in any day",
		"policy: gcra 1000/h burst=1":                         "at most 1 request in any second, 17 in any minute, 1000 in any hour, 24000 in any day",
		"policy: movingwindow 1000/h slots=12 trailing=whole": "at most 1000 requests in any second, 1000 in any minute, 1000 in any hour, 23000 in any day",
		"policy: fixedwindow 5/15m":                           "at most 10 requests in any second, 10 in any minute, 10 in any 15m, 25 in any hour, 485 in any day",
		"policy: all(gcra 10/s; gcra 100/m)":                  "at most 19 requests in any second, 199 in any minute, 6099 in any hour, 144099 in any day",
		"policy: tokenbucket 200/m, cost: 10":                 "at most 20 requests in any second, 39 in any minute, 1219 in any hour, 28819 in any day",
		"policy: gcra 1000000/s, cost: bytes":                 "at most 1999999 bytes in any second, 60999999 in any minute, 3600999999 in any hour, 86400999999 in any day",
		"policy: gcra 4611686018427387904/m":                  "at most 4688547451990982935 requests in any second, 9223372036777914374 in any minute, too many to count in any hour, too many to count in any day",
	} {
		exitCode, out, errs := sluice(t, "rules: [{name: client, "+rule+"}]", "check", "-")
		require.Zero(t, exitCode, errs)
		require.Contains(t, out, "  "+want+"\n", rule)
	}
}

// TestClientPageShowsTheOutputOfCheck: docs/client.md shows the output for its rule.
func TestClientPageShowsTheOutputOfCheck(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "client.md"))
	require.NoError(t, err)
	exitCode, out, errs := sluice(t, "rules: [{name: client, policy: gcra 1000/h, by: ip}]", "check", "-")
	require.Zero(t, exitCode, errs)
	require.Contains(t, string(page), "$ sluice check limits.yaml\n"+strings.Replace(out, "standard input", "limits.yaml", 1)+"```\n")
}
