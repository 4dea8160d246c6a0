package compare

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestComparePrintsTheAddressOfItsPage(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	read, written := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- cli.Run(ctx, []string{"compare", "-p", "gcra 10/m", "-p", "fixedwindow 10/m"}, cli.Streams{In: strings.NewReader(""), Out: written, Err: os.Stderr}, clitest.Commands...)
	}()
	lines := bufio.NewReader(read)
	address, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/.*p=gcra.*p=fixedwindow`, address)
	go func() { _, _ = io.Copy(io.Discard, lines) }()

	response, err := http.Get(strings.TrimSpace(address))
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode)
	require.Contains(t, string(body), "<!doctype html>")

	cancel()
	require.Zero(t, <-ended)
}

func TestInvalidCommandLines(t *testing.T) {
	clitest.Transcript(t, "failures.txt", nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	clitest.RequireFailure(t, []string{"compare", "--listen", taken.Addr().String()}, cli.ExitFailed, "address already in use", "choose another port")
	tooMany := slices.Repeat([]string{"-p", "gcra 1/s"}, 13)
	clitest.RequireFailure(t, append([]string{"compare"}, tooMany...), cli.ExitUsage, "13 policies; the page compares at most 12")
}

func TestCompareAddressHasThePolicies(t *testing.T) {
	require.Equal(t, "http://127.0.0.1:8090/", pageAddress("127.0.0.1:8090", nil))

	specs := []string{"all(gcra 10/s; gcra 100/m burst=20)", "a&b #+%2F"}
	address := pageAddress("[::1]:8090", specs)
	before, after, _ := strings.Cut(address, "#")
	require.Equal(t, "http://[::1]:8090/", before)
	require.True(t, strings.HasPrefix(after, "p=all(gcra+10/s;+gcra+100/m+burst=20)&p="), after)
	// URLSearchParams of the browser reads ; as a character of the value. url.ParseQuery refuses it.
	read, err := url.ParseQuery(strings.ReplaceAll(after, ";", "%3B"))
	require.NoError(t, err)
	require.Equal(t, specs, read["p"])
}

func TestMain(m *testing.M) { clitest.Main(m, Command) }
