package logs

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressNeedsEightyColumns(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	for columns, wide := range map[int]bool{0: true, 40: false, 79: false, 80: true, 200: true} {
		stty := exec.Command("stty", "cols", strconv.Itoa(columns))
		stty.Stdin = terminal
		out, err := stty.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, wide, isWide(terminal), columns)
	}
	require.False(t, isWide(io.Discard), "not a file")
}
