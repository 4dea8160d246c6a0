package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const clientPage = "../../docs/client.md"

// find returns the first groups of all matches in the page.
func find(t *testing.T, pattern string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(clientPage)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	require.NotEmpty(t, found)
	return found
}

const greeting = "hello\n"

// startPage starts a server with the first command of the page. run runs another command of the page against it.
func startPage(t *testing.T) (url string, run func(command string) string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short skips tests that wait for refills")
	}
	s := startServe(t, "--limit", find(t, `\$ sluice serve --limit "(.*)" --by ip --upstream http://localhost:3000\n`)[0],
		"--by", "ip", "--listen", "127.0.0.1:0", "--upstream", upstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, greeting) }))
	url = s.waitForLog(`msg=serving .*proxy=(\S+)`)
	return url, func(command string) string {
		out, err := exec.Command("bash", "-c", strings.ReplaceAll(command, "http://localhost:8080", url)).Output()
		require.NoError(t, err, "%s (scripts/test.sh installs curl)", command)
		return strings.ReplaceAll(string(out), "\r\n", "\n")
	}
}

func undated(text string) string {
	return regexp.MustCompile(`(?m)^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`).ReplaceAllString(text, "Date: NOW")
}

// TestTranscriptOfTheClientPage: on a slow machine the limit may refill before it is exhausted. Then the command runs again.
func TestTranscriptOfTheClientPage(t *testing.T) {
	_, run := startPage(t)
	transcripts := find(t, "(?s)```console\n\\$ (curl .*?)```")
	require.Len(t, transcripts, 2)
	for _, transcript := range transcripts {
		command, shown, _ := strings.Cut(transcript, "\n")
		output := undated(run(command))
		for end := time.Now().Add(testTimeout); strings.Contains(shown, "429") && !strings.Contains(output, "429") && time.Now().Before(end); {
			output = undated(run(command))
		}
		require.Equal(t, undated(shown), output)
	}
}

func TestCurlRetriesUntilItIsAllowed(t *testing.T) {
	t.Parallel() // it waits
	url, run := startPage(t)
	require.Eventually(t, func() bool { return status(t, url) == http.StatusTooManyRequests }, testTimeout, time.Microsecond)
	require.Contains(t, run(find(t, `(?m)^    (curl --retry .*)$`)[0]), greeting)
}
