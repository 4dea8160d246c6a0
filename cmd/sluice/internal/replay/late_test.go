package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

// TestOneTimeInTheFutureIsReported: one time in the future makes all lines after it late, so the
// counts would be wrong.
func TestOneTimeInTheFutureIsReported(t *testing.T) {
	lines := strings.SplitAfter(clitest.FourLines, "\n")
	future := strings.Replace(lines[1], "2000", "2099", 1)
	file := clitest.Write(t, "access.log", lines[0]+future+strings.Join(lines[1:], ""))
	exitCode, out, errs := clitest.Execute(t, "", "replay", "--reorder", "30s", file)
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Empty(t, out)
	require.Equal(t, "sluice: "+file+": 3 of 5 lines are late by more than --reorder 30s because of the time of "+file+":2, 2099-01-01 00:00:01; "+
		"remove that line, sort the log by time, or set a longer --reorder\n", errs)

	exitCode, out, _ = clitest.Execute(t, "", "replay", clitest.Write(t, "access.log", future+lines[0]))
	require.Zero(t, exitCode, "half is not more than half")
	require.Contains(t, out, "1 line out of order by more than --reorder")
}

// TestUnsortedLogsReportNoLine: in an unsorted log no single line makes most lines late.
func TestUnsortedLogsReportNoLine(t *testing.T) {
	lines := strings.SplitAfter(clitest.FourLines, "\n")
	file := clitest.Write(t, "access.log", lines[1]+lines[0]+lines[0]+lines[3]+lines[1]+lines[1])
	exitCode, out, errs := clitest.Execute(t, "", "replay", "--reorder", "0s", file)
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Empty(t, out)
	require.Equal(t, "sluice: "+file+": 4 of 6 lines are late by more than --reorder 0s; sort the log by time, or set a longer --reorder\n", errs)
}
