package browsertest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// lines returns an access log with a request each second, by two clients in turn.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "192.0.2.%d - - [12/Mar/2026:10:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 5\n", 1+i%2, i/60, i%60)
	}
	return b.String()
}

// drop drops a file onto the page.
func (b *tab) drop(name, content string) {
	b.t.Helper()
	eval[bool](b, `(() => {
		const bytes = Uint8Array.from(atob(%s), (c) => c.charCodeAt(0));
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(new File([bytes], %s));
		for (const type of ['dragenter', 'dragover', 'drop']) {
			document.body.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
		}
		return true;
	})()`, quote(base64.StdEncoding.EncodeToString([]byte(content))), quote(name))
}

// requireLog checks the table for the log of lines(60) with the policy gcra 1/5s: each client has a
// request every 2s, of which the policy allows every third.
func (b *tab) requireLog() {
	b.t.Helper()
	row := b.table()[0]
	require.Equal(b.t, 60, row.number(b.t, "Calls"))
	require.Equal(b.t, 20, row.number(b.t, "Allowed"))
	require.Contains(b.t, b.text("#results caption"), "60 requests of 2 clients")
	require.Equal(b.t, "log", eval[string](b, "document.querySelector('#kind').value"))
}

// TestLogsAreReplayed: a file that is chosen, one that is dropped, and the part of one that is cut short.
// A log that cannot be replayed changes nothing.
func TestLogsAreReplayed(t *testing.T) {
	t.Parallel()
	b := openOwn(t, "p=gcra+1/5s")
	before := b.table()
	b.drop("times.log", strings.Repeat("192.0.2.1 GET / 200\n", 20))
	b.wait("document.querySelector('#log-note').innerText.startsWith('times.log was not read: ')")
	require.Contains(t, b.text("#log-note"), "are not log lines")
	require.Equal(t, before, b.table())

	path := filepath.Join(t.TempDir(), "chosen.log")
	require.NoError(t, os.WriteFile(path, []byte(lines(60)), 0o600))
	b.changes(func() { b.do(chromedp.SetUploadFiles(chromedp.CSS("#log-file"), []string{path})) })
	b.requireLog()
	require.Contains(t, b.text("#log-note"), "chosen.log: 60 requests of 2 clients.")

	b.changes(func() { b.drop("dropped.log", lines(60)+"not a request\n") })
	b.requireLog()
	require.Contains(t, b.text("#log-note"), "dropped.log: 60 requests of 2 clients.")
	require.Contains(t, b.text("#log-note"), "1 line is not a request and was skipped")

	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(lines(60)))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	b.changes(func() { b.drop("cut.log.gz", zipped.String()[:zipped.Len()-4]) })
	b.requireLog()
	require.Contains(t, b.text("#log-note"), "cut short or damaged (unexpected EOF)")
}

func TestNamesInALogAreShownAsText(t *testing.T) {
	t.Parallel()
	b := openOwn(t, "p=gcra+1/5s")
	hostile := "<img/src=x/onerror=alert(1)>"
	log := strings.ReplaceAll(lines(5), "192.0.2.1 ", hostile+" ") + strings.ReplaceAll(lines(1), "192.0.2.1 ", "192.0.2.3 ") // half of the clients must be addresses
	b.changes(func() { b.drop(hostile+".log", log) })
	require.Contains(t, b.text("#log-note"), hostile)
	require.Contains(t, b.text("#log"), hostile)
	require.Equal(t, hostile, eval[string](b, "document.querySelector('#client').value"))
	b.tabTo("#chart-1")
	b.press(kb.Home)
	b.wait("document.querySelector('#explanation-words').innerText.includes(%s)", quote(" by "+hostile+": allowed"))
	require.Zero(t, eval[int](b, "document.querySelectorAll('img').length"))
}

func TestPageRecoversWhenTheProgramStartsAgain(t *testing.T) {
	t.Parallel()
	b := blank(t)
	address := freeAddress(t)
	first, err := start(address)
	require.NoError(t, err)
	defer first.kill()
	b.visit(first.address + "#" + steady(10, "gcra 1/5s").settings())
	before := b.table()

	first.kill()
	b.enter("#spec-1", "fixedwindow 3/20s")
	b.wait("document.querySelector('#messages').innerText.includes('does not answer')")
	require.Contains(t, b.messages(), "--listen")
	require.Equal(t, before, b.table(), "what was drawn remains")

	second, err := start(address)
	require.NoError(t, err)
	defer second.kill()
	b.wait("document.querySelector('#results tbody code').textContent === 'fixedwindow 3/20s'")
	require.Empty(t, b.messages())
	b.requireTable(b.compare(steady(10, "fixedwindow 3/20s")))
	for _, fault := range b.take() {
		require.True(t, strings.Contains(fault, "ERR_CONNECTION_") || strings.Contains(fault, "ERR_EMPTY_RESPONSE"), fault)
	}
}

// freeAddress returns an address that is free, and that remains free while the program does not run: its
// port is below those that the system gives to clients.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// The test delays the request until the page shows the progress bar.
func TestLongRequestsShowTheProgressBar(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s").settings())
	const visible = "document.querySelector('#progress-bar progress').checkVisibility()"
	require.False(t, eval[bool](b, visible))
	paused := chromedp.Events(b.ctx, fetch.RequestPaused)
	call(b, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/api/*"}}})
	b.changes(func() {
		b.enter("#spec-1", "gcra 2/5s")
		b.wait(visible)
		for request, err := range paused {
			require.NoError(t, err)
			call(b, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: request.RequestID})
			break
		}
	})
	b.wait("!" + visible)
	require.Contains(t, b.table()[0]["Policy"], "gcra 2/5s")
}
