package browsertest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	b, _ := openOwn(t, "p=gcra+1/5s")
	before := b.table()
	for name, c := range map[string]struct{ content, message string }{
		"empty.log":   {"", "the log is empty"},
		"times.log":   {strings.Repeat("192.0.2.1 GET / 200\n", 20), "are not log lines"},
		"picture.png": {"\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\xff\x17\x80", 500), "are not log lines"},
	} {
		b.drop(name, c.content)
		b.wait("document.querySelector('#log-note').innerText.startsWith(%s)", quote(name+" was not read: "))
		require.Contains(t, b.text("#log-note"), c.message)
		require.Equal(t, before, b.table())
	}

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

func TestTooLargeLogIsNotSent(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+1/5s")
	b.requested()
	eval[bool](b, `(() => {
		const megabyte = new Uint8Array(1 << 20);
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(new File(Array(257).fill(megabyte), 'large.log'));
		document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));
		return true;
	})()`)
	b.wait("document.querySelector('#log-note').innerText.startsWith('large.log has 257 MB. The page reads at most 256 MB.')")
	require.Empty(t, b.requested())
}

// A small log that is dropped while a large one is read replaces it.
func TestLogDroppedWhileAnotherIsRead(t *testing.T) {
	t.Parallel()
	b, _ := openOwn(t, "p=gcra+1/5s")
	b.changes(func() {
		eval[bool](b, `(() => {
			const { fetch } = window;
			window.ended = 0; // fetches of logs
			window.fetch = (url, options) => fetch(url, options).finally(() => { if (url.endsWith('/log')) window.ended++; });
			const drop = (name, ...parts) => {
				const dataTransfer = new DataTransfer();
				dataTransfer.items.add(new File(parts, name));
				document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));
			};
			drop('large.log', ...Array(10).fill(%s.repeat(100)));
			drop('small.log', %s);
			return true;
		})()`, quote(lines(600)), quote(lines(60)))
	})
	b.wait("window.ended === 2")
	b.changes(func() { b.click("#zoom-in") })
	b.requireLog()
	require.Contains(t, b.text("#log-note"), "small.log: 60 requests of 2 clients.")
}

// The program keeps the last three logs, whichever tab sent them.
func TestExplanationOfAForgottenLogIsAnError(t *testing.T) {
	t.Parallel()
	b, address := openOwn(t, "p=gcra+1/5s")
	b.changes(func() { b.drop("first.log", lines(5)) })
	for n := range 3 {
		response, err := http.Post(address+"api/log", "", strings.NewReader(lines(6+n)))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	b.tabTo("#chart-1")
	b.press(kb.Home)
	b.wait("document.querySelector('#messages').innerText.includes('no longer in memory; drop the file onto the page again')")
}

func TestNamesInALogAreShownAsText(t *testing.T) {
	t.Parallel()
	b, _ := openOwn(t, "p=gcra+1/5s")
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

func TestBundledLog(t *testing.T) {
	t.Parallel()
	b := open(t, "kind=log")
	require.Contains(t, b.text("#log"), "bundled")
	require.Greater(t, b.table()[0].number(t, "Calls"), 1000)
	b.click("#chart-1 .u-over")
	b.wait("document.querySelector('#explanation-words').innerText.includes(' UTC by ')")
}
