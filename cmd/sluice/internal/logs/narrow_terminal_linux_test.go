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
	require.True(t, isTerminal(terminal))
	for columns, narrow := range map[int]bool{0: false, 40: true, 79: true, 80: false, 200: false} {
		stty := exec.Command("stty", "cols", strconv.Itoa(columns))
		stty.Stdin = terminal
		out, err := stty.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, narrow, isNarrow(terminal), columns)
	}
	require.False(t, isNarrow(io.Discard), "not a file")
}
