package servetest

// The tests of this package promise:
//
//   - Under load, during a reload and after the program was killed, no more requests are admitted
//     than Policy.Bound.
//   - A reload fails no request. A shutdown cuts off no request within --drain.
//   - During an outage of the store, the program does what --on-failure says. After it, the quota is
//     what it was before.
//   - The memory of the program does not grow with the number of keys.
//   - The commands and the Go code of docs/client.md work.

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

const page = "../../../../docs/client.md"

func pageText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// blocks returns the code blocks of the page in a language.
func blocks(t *testing.T, language string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(pageText(t), -1) {
		found = append(found, m[1])
	}
	require.NotEmpty(t, found)
	return found
}

// terminal runs the commands of the page with the addresses of its own program.
type terminal struct {
	t         *testing.T
	addresses *strings.Replacer
}

// startPage runs the first command of the page, which starts the server.
func startPage(t *testing.T) *terminal {
	t.Helper()
	const command = `\$ sluice serve --limit "(.*)" --by ip --upstream http://localhost:3000\n`
	m := regexp.MustCompile("^" + command + "$").FindStringSubmatch(blocks(t, "console")[0])
	require.NotNil(t, m, "the first block starts the server")
	p := serve(t, "--limit", m[1], "--by", "ip", "--upstream", newUpstream(t).url)
	return &terminal{t, strings.NewReplacer("http://localhost:8080", p.proxy)}
}

// run runs a command and returns its output.
func (m *terminal) run(script string) string {
	m.t.Helper()
	out, err := exec.Command("bash", "-c", m.addresses.Replace(script)).Output()
	require.NoError(m.t, err, script)
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

func undated(text string) string {
	return regexp.MustCompile(`(?m)^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`).ReplaceAllString(text, "Date: NOW")
}

func TestTranscriptOfTheClientPage(t *testing.T) {
	m := startPage(t)
	transcripts := blocks(t, "console")[1:]
	require.Len(t, transcripts, 2)
	for _, transcript := range transcripts {
		command, shown, _ := strings.Cut(transcript, "\n")
		command, isCommand := strings.CutPrefix(command, "$ ")
		require.True(t, isCommand, command)
		// On a slow machine the limit may refill before it is exhausted. Then the command runs again.
		var output string
		_ = eventually(func() bool {
			output = undated(m.run(command))
			return !strings.Contains(shown, "429") || strings.Contains(output, "429")
		})
		require.Equal(t, undated(shown), output)
	}
}

// eventually reports whether the condition becomes true within testTimeout.
func eventually(condition func() bool) bool {
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		if condition() {
			return true
		}
	}
	return false
}

// exhaust sends requests until the client is denied.
func (m *terminal) exhaust() {
	m.t.Helper()
	require.True(m.t, eventually(func() bool {
		return strings.HasSuffix(m.run(`curl -s -o /dev/null -w '%{http_code} ' 'http://localhost:8080/[1-40]'`), "429 ")
	}))
}

func TestCurlRetriesUntilItIsAllowed(t *testing.T) {
	t.Parallel() // it waits
	m := startPage(t)
	m.exhaust()
	retry := regexp.MustCompile(`(?m)^    (curl --retry .*)$`).FindStringSubmatch(pageText(t))
	require.NotNil(t, retry)
	require.Contains(t, m.run(retry[1]), greeting)
}

func newClient(own *sluice.Limiter[*http.Request]) *http.Client {
	return &http.Client{Transport: &httplimit.Transport{Limiter: own}}
}

func TestTransportOfTheClientPageSeesNo429(t *testing.T) {
	t.Parallel() // it waits
	m := startPage(t)
	client := newClient(nil)
	defer client.CloseIdleConnections()
	for range 22 { // 2 more than the burst
		r, err := client.Get(m.addresses.Replace("http://localhost:8080/"))
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusOK, r.StatusCode)
	}
}

func TestGoCodeOfThePageIsTested(t *testing.T) {
	own, err := os.ReadFile("client_test.go")
	require.NoError(t, err)
	for _, block := range blocks(t, "go") {
		require.Contains(t, string(own), block)
	}
}

func TestLinksOfThePageExist(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(pageText(t), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		require.FileExists(t, filepath.Join(filepath.Dir(page), link[1]))
	}
}
