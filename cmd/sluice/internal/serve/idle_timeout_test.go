package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const impatience = 500 * time.Millisecond

func impatient(o *Options) { o.ClientTimeout = impatience }

// say sends text to the proxy on a connection of its own.
func say(t *testing.T, w *testServer, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", w.proxy.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

func TestIdleClientsAreCutOff(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }), impatient)
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"
	var statuses [4]int
	var all sync.WaitGroup
	began := time.Now()
	for i := range statuses {
		_, reader := say(t, w, post)
		all.Go(func() {
			response, err := http.ReadResponse(reader, nil)
			if assert.NoError(t, err) {
				statuses[i] = response.StatusCode
			}
			_, err = io.Copy(io.Discard, reader)
			assert.NoError(t, err, "the connection ends")
		})
	}
	all.Wait()
	require.Less(t, time.Since(began), impatience+slack)
	require.ElementsMatch(t, []int{408, 408, 408, 429}, statuses, "what is denied is not read by anybody")
	require.NotContains(t, w.logged.String(), "the upstream failed")
}

func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	const timeout = 50 * time.Millisecond
	ended := make(chan struct{})
	w := startTestServer(t, oneByIP, withUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for text := []byte(strings.Repeat("x", 1<<20)); ; {
			if _, err := w.Write(text); err != nil {
				return
			}
		}
	}), func(o *Options) { o.ClientTimeout = timeout })
	say(t, w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(timeout + slack):
		t.Fatal("the upstream still writes")
	}
}

// deadlines is a response that has been set deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// TestWaitForTheUpstreamHasNoClientTimeout: no deadline is set between reads and writes.
func TestWaitForTheUpstreamHasNoClientTimeout(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h := (&Options{ClientTimeout: time.Minute}).idleTimeout(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 2))
		require.Zero(t, d.read)
		io.WriteString(w, "x")
		require.Zero(t, d.write)
		require.Zero(t, d.read)
		require.NoError(t, http.NewResponseController(w).Flush())
		require.Zero(t, d.write)
	}))
	h.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("abc")))
	require.NotZero(t, d.read, "what is left at the end is not waited for without end")
	require.True(t, d.write.After(d.read), "the response is sent after what is left has been waited for")
	require.True(t, d.Flushed)
}

// TestReadAfterTheHandlerReturnedSetsNoDeadline: a transport may still read the body when the handler
// has returned.
func TestReadAfterTheHandlerReturnedSetsNoDeadline(t *testing.T) {
	for _, breaksOff := range []bool{false, true} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		var content io.Reader
		h := (&Options{ClientTimeout: time.Minute}).idleTimeout(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if content = r.Body; breaksOff {
				panic(http.ErrAbortHandler)
			}
		}))
		serve := func() { h.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("abc"))) }
		if breaksOff {
			require.Panics(t, serve)
		} else {
			serve()
		}
		theServers := time.Unix(1, 0)
		d.read = theServers
		content.Read(make([]byte, 1))
		require.Equal(t, theServers, d.read, "the next request has the connection; broken off: %t", breaksOff)
	}
}

func TestInvalidBodyIsNotAnUpstreamFailure(t *testing.T) {
	discard := withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for _, timeout := range []time.Duration{0, testTimeout} {
		w := startTestServer(t, oneByIP, discard, func(o *Options) { o.ClientTimeout = timeout })
		_, reader := say(t, w, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nthree\r\n")
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.Contains(t, contentOf(t, response.Body), "is not refunded")
		require.NotContains(t, w.logged.String(), "the upstream failed")
		require.Contains(t, fetch(t, w.apiURL("/metrics")).body, `sluice_upstream_failures_total{status="502"} 0`)
	}
}

// TestRefusalsDoNotWaitForBodies: the client sends the body only after 100 Continue, or the body
// is very long.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	discard := withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	w := startTestServer(t, "\nrules: [{name: all, policy: fixedwindow 1/h}]\n", discard)
	const expecting = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	conn, reader := say(t, w, expecting)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, response.StatusCode, "it is let through")
	io.WriteString(conn, "abc")
	for response.StatusCode == http.StatusContinue { // the proxy may also forward that of the upstream
		response, err = http.ReadResponse(reader, nil)
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusOK, response.StatusCode)
	for _, request := range []string{expecting, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000000\r\n\r\n"} {
		_, reader := say(t, w, request)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err, "%s", request)
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	}
}

// TestRefusalsDoNotWaitForSlowBodies: each client sends one byte of its body and no more.
// It gets its answer, and then the connection closes.
func TestRefusalsDoNotWaitForSlowBodies(t *testing.T) {
	const slow = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx"
	unbounded := strings.Replace(slow, "Content-Length: 100000", "Transfer-Encoding: chunked", 1)
	never := withUpstream(t, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		rules   string
		change  func(*Options)
		request string
		status  int
	}{
		"above the capacity": {byBytes, never, slow, http.StatusRequestEntityTooLarge},
		"above --max-body":   {oneByIP, func(o *Options) { never(o); o.MaxBody = 10 }, slow, http.StatusRequestEntityTooLarge},
		"of unknown length":  {byBytes, never, unbounded, http.StatusLengthRequired},
		"no upstream":        {oneByIP, at(t, "http://"+unusedAddress(t)), slow, http.StatusBadGateway},
		"for no path":        {oneByIP, never, strings.Replace(slow, "POST /", "POST x:y", 1), http.StatusBadRequest},
		"denied":             {oneByIP, never, slow, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, c.rules, c.change, func(o *Options) { o.ClientTimeout, o.DecisionTimeout = 0, 10*time.Millisecond })
			if c.status == http.StatusTooManyRequests {
				require.Equal(t, 3, w.allowed(3))
			}
			_, reader := say(t, w, c.request)
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, c.status, response.StatusCode)
			require.True(t, response.Close)
			_, err = io.Copy(io.Discard, reader)
			require.NoError(t, err)
		})
	}
}
