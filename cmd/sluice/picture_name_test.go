package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Characters that a terminal interprets, or that XML forbids, are escaped in the names of files.
func TestNamesOfFilesAreEscaped(t *testing.T) {
	name := "a\x1b[31m\x01\xff<b>&\n\"x\""
	log := write(t, name+".log", fourLines)
	rules := write(t, name+".yaml", "trusted: []\nrules: [{name: client, policy: gcra 1/m, by: ip}]\n")
	picture := filepath.Join(t.TempDir(), "a.svg")
	for _, args := range [][]string{
		{"replay", "-p", "gcra 1/m"},
		{"replay", "--config", rules},
		{"suggest", "-p", "gcra ?/m"},
		{"suggest", "--config", rules},
	} {
		out := ok(t, "", append(args, "--out", picture, log)...)
		require.NotContains(t, out, "\x1b")
		first, _, _ := strings.Cut(out, "\n")
		require.Contains(t, first, `a\x1b[31m\x01\xff<b>&\n"x".log: 4 requests`)
		svg, err := os.Open(picture)
		require.NoError(t, err)
		defer svg.Close()
		for d := xml.NewDecoder(svg); err == nil; {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, args)
	}
}
