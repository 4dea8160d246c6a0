package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// Characters that a terminal interprets, or that XML forbids, are escaped in the names of files.
func TestNamesOfFilesAreEscaped(t *testing.T) {
	name := "a\x1b[31m\x01\xff<b>&\n\"x\""
	log := clitest.Write(t, name+".log", clitest.FourLines+"no request\n")
	rules := clitest.Write(t, name+".yaml", "trusted: []\nrules: [{name: client, policy: gcra 1/m, by: ip}]\n")
	shown := `a\x1b[31m\x01\xff<b>&\n"x".log`
	picture := filepath.Join(t.TempDir(), "a.svg")
	for _, args := range [][]string{
		{"replay", "-p", "gcra 1/m"},
		{"replay", "--config", rules},
		{"suggest", "-p", "gcra ?/m"},
		{"suggest", "--config", rules},
	} {
		out := clitest.Ok(t, "", append(args, "--out", picture, log)...)
		require.NotContains(t, out, "\x1b")
		require.Contains(t, out, shown+": 4 requests")
		require.Contains(t, out, shown+":5: no [time]")
		svg, err := os.Open(picture)
		require.NoError(t, err)
		defer svg.Close()
		for d := xml.NewDecoder(svg); err == nil; {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, args)
	}
}
