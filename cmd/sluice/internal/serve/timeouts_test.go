package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// sendText sends text to the proxy on a new connection.
func sendText(t *testing.T, w *testServer, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", w.proxy.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// readResponse reads the head of a response.
func readResponse(t *testing.T, reader *bufio.Reader) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	return response
}

// TestClientsThatDoNotReadAreCutOff: the upstream sends a large or an interim response, net/http sends 100 Continue
// when the body is read, the proxy refuses the request, or it sends the settings of HTTP/2.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	sleep := func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }
	for request, upstream := range map[string]http.HandlerFunc{
		"GET /large HTTP/1.1\r\nHost: x\r\n\r\n": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1048576")
			w.Write(make([]byte, 1<<20))
		},
		"GET /interim HTTP/1.1\r\nHost: x\r\n\r\n": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			sleep(w, r)
		},
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n": sleep,
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                           sleep,
		clientPreface + frame(settingsFrame, 0, 0, ""):                                    sleep,
	} {
		proxied(t, upstream, func(t *testing.T, front *pipes) {
			conn, err := front.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, request)
			require.NoError(t, err)
			time.Sleep((writeFactor + 1) * time.Minute)
			_, err = conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, request)
		})
	}
}

// deadlines is a ResponseWriter that records its deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// TestReadAfterTheHandlerReturnedSetsNoDeadline: a transport may still read the body when the handler has returned, or broken off the
// response.
func TestReadAfterTheHandlerReturnedSetsNoDeadline(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	var content io.Reader
	h := (&Options{ClientTimeout: time.Minute}).idleTimeout(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		content = r.Body
		panic(http.ErrAbortHandler)
	}))
	require.Panics(t, func() { h.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("abc"))) })
	theServers := time.Unix(1, 0)
	d.read = theServers
	content.Read(make([]byte, 1))
	require.Equal(t, theServers, d.read, "the next request has the connection")
}

// TestRefusalsDoNotWaitForSlowBodies: each client sends one byte of its body and no more.
// It gets its response, and then the connection closes.
func TestRefusalsDoNotWaitForSlowBodies(t *testing.T) {
	skipIfShort(t)
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
		"exempt":             {"trusted: []\nexcept: {addresses: 127.0.0.0/8}\n" + byBytes, at(t, "http://"+unusedAddress(t)), unbounded, http.StatusBadGateway},
		"no upstream":        {oneByIP, at(t, "http://"+unusedAddress(t)), slow, http.StatusBadGateway},
		"for no path":        {oneByIP, never, strings.Replace(slow, "POST /", "POST x:y", 1), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, c.rules, c.change, func(o *Options) { o.ClientTimeout, o.DecisionTimeout = 0, 10*time.Millisecond })
			_, reader := sendText(t, w, c.request)
			response := readResponse(t, reader)
			require.Equal(t, c.status, response.StatusCode)
			require.True(t, response.Close)
			_, err := io.Copy(io.Discard, reader)
			require.NoError(t, err)
		})
	}
}

// pipes is a listener whose connections are in memory, so that synctest controls their time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// proxied runs test in a synctest bubble with a proxy in front of handler. The proxy has the default limits
// for slow clients, and a rule that allows everything.
func proxied(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, front *pipes), changes ...func(*Options)) {
	t.Helper()
	limitedProxy{rules: "rules: [{name: all, policy: gcra 1000/s}]", store: new(memory.Store), log: io.Discard}.run(t, handler, test, changes...)
}

// limitedProxy is a proxy with rules on a store, which writes its failures to log.
type limitedProxy struct {
	rules string
	store storage.Store
	log   io.Writer
}

func (p limitedProxy) run(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, front *pipes), changes ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Hour) // of the bubble's time, for what ends with its connection
		front, back := newPipes(), newPipes()
		behind := &http.Server{Handler: handler}
		go behind.Serve(back)
		defer behind.Close()

		o := Options{
			Upstream: &url.URL{Scheme: "http", Host: "upstream"}, ClientTimeout: time.Minute,
			MinBodyRate: defaultMinBodyRate, BodyGrace: defaultBodyGrace,
		}
		for _, change := range changes {
			change(&o)
		}
		s := &Server{options: o, log: slog.New(slog.DiscardHandler), sampled: sampledTo(p.log), metrics: newMetrics("", p.store), store: &stores.Store{Store: p.store}}
		s.transport = s.options.newTransport()
		s.transport.DialContext = back.dial
		defer s.transport.CloseIdleConnections()
		file, err := config.Parse("limits.yaml", []byte(p.rules))
		require.NoError(t, err)
		limits, err := s.newLimiters(file)
		require.NoError(t, err)
		s.background, s.stop = context.WithCancel(context.Background())
		l := s.server(front, s.proxyHandler(limits))
		go l.http.Serve(l.Listener)
		defer l.http.Close()
		defer s.stop()
		test(t, front)
	})
}

// exchange sends a request whose body write writes, and returns the response.
func (p *pipes) exchange(t *testing.T, header string, write func(io.Writer)) (*http.Response, *bufio.Reader) {
	t.Helper()
	conn, err := p.dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_, _ = io.WriteString(conn, header+"\r\n\r\n")
		write(conn)
	}()
	reader := bufio.NewReader(conn)
	return readResponse(t, reader), reader
}

// drip writes n bytes after each pause, until a write fails or total bytes are written.
func drip(n int, pause time.Duration, total int) func(io.Writer) {
	return func(w io.Writer) {
		for sent := 0; sent < total; sent += n {
			if _, err := io.WriteString(w, strings.Repeat("x", n)); err != nil {
				return
			}
			time.Sleep(pause)
		}
	}
}

// consume reads the whole body, responds with its length, and stores the error at its end.
func consume(failure *error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var length int64
		length, *failure = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, length)
	}
}

const megabyte = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576"

func TestSlowBodiesAreCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		write func(io.Writer)
		after time.Duration // at the latest
		rate  int64
	}{
		"nothing":                 {func(io.Writer) {}, 10 * time.Second, defaultMinBodyRate},
		"nothing, at any rate":    {func(io.Writer) {}, time.Minute, 0},
		"a byte each half second": {drip(1, time.Second/2, 1<<20), 11 * time.Second, defaultMinBodyRate},
		"nearly the rate":         {drip(200, time.Second, 1<<20), 61 * time.Second, defaultMinBodyRate},
		"fast, then slow": {func(w io.Writer) {
			drip(1<<19, 0, 1<<19)(w)
			drip(1, time.Second/2, 1<<20)(w)
		}, 11 * time.Second, defaultMinBodyRate},
	} {
		t.Run(name, func(t *testing.T) {
			var failure error
			proxied(t, consume(&failure), func(t *testing.T, front *pipes) {
				began := time.Now()
				response, rest := front.exchange(t, megabyte, c.write)
				require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
				require.GreaterOrEqual(t, time.Since(began), defaultBodyGrace)
				require.LessOrEqual(t, time.Since(began), c.after)
				_, err := io.Copy(io.Discard, rest)
				require.NoError(t, err, "the connection ends")
				synctest.Wait()
				require.Error(t, failure, "the request to the upstream ends too")
			}, func(o *Options) { o.MinBodyRate = c.rate })
		})
	}
}

func TestSlowBodiesOverHTTP2AreCutOff(t *testing.T) {
	proxied(t, consume(new(error)), func(t *testing.T, front *pipes) {
		client := newHTTP2(front.dial)
		defer client.CloseIdleConnections()
		body, write := io.Pipe()
		go drip(1, time.Second/2, 1<<20)(write)
		defer write.Close()
		began := time.Now()
		response, err := client.Post("http://proxy/", "text/plain", body)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

// newHTTP2 returns a client that uses HTTP/2 without TLS. A nil dial means a real connection.
func newHTTP2(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// TestSlowExchangesThatAreAllowed: the total time of an upload is not limited, and the client and the upstream do not pay for
// each other's pauses.
func TestSlowExchangesThatAreAllowed(t *testing.T) {
	count := consume(new(error))
	atOnce := drip(1<<16, 0, 1<<20)
	for name, c := range map[string]struct {
		upstream http.HandlerFunc
		write    func(io.Writer)
		timeout  time.Duration // of the upstream; 0: none
	}{
		"an upload of more than an hour":        {count, drip(256, time.Second, 1<<20), 0},
		"an upload that begins late":            {count, func(w io.Writer) { time.Sleep(9 * time.Second); atOnce(w) }, 0},
		"pauses longer than --upstream-timeout": {count, drip(1<<16, 5*time.Second, 1<<20), time.Second},
		"an upstream that pauses between reads": {func(w http.ResponseWriter, r *http.Request) {
			sent := int64(0)
			for n := int64(1); n > 0; sent += n {
				time.Sleep(4 * time.Minute)
				n, _ = io.CopyN(io.Discard, r.Body, 1<<16)
			}
			_, _ = fmt.Fprint(w, sent)
		}, atOnce, 0},
		"an upstream that responds before it reads": {func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			_ = rc.Flush()
			time.Sleep(time.Minute)
			count(w, r)
		}, atOnce, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			proxied(t, c.upstream, func(t *testing.T, front *pipes) {
				response, _ := front.exchange(t, megabyte, c.write)
				require.Equal(t, http.StatusOK, response.StatusCode)
				require.Equal(t, fmt.Sprint(1<<20), contentOf(t, response.Body))
			}, responseWithin(c.timeout))
		})
	}
}

func TestBodiesMayPauseWithoutLimits(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		proxied(t, consume(new(error)), func(t *testing.T, front *pipes) {
			client := &http.Client{Transport: &http.Transport{DialContext: front.dial}}
			if http2 {
				client = newHTTP2(front.dial)
			}
			body, write := io.Pipe()
			go func() { drip(1, time.Hour, 3)(write); write.Close() }()
			response, err := client.Post("http://proxy/", "text/plain", body)
			require.NoError(t, err)
			require.Equal(t, "3", contentOf(t, response.Body))
		}, func(o *Options) { o.ClientTimeout, o.MinBodyRate = 0, 0 })
	}
}

// TestSlowResponses: a download and server-sent events take an hour, in which the client sends nothing.
func TestSlowResponses(t *testing.T) {
	events := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 60 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Minute)
		}
	}
	proxied(t, events, func(t *testing.T, front *pipes) {
		began := time.Now()
		response, _ := front.exchange(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0", func(io.Writer) {})
		require.Len(t, contentOf(t, response.Body), 60*len("data: x\n\n"))
		require.Equal(t, time.Hour, time.Since(began))
	})
}

func TestWebSocketsMayPause(t *testing.T) {
	proxied(t, echo, func(t *testing.T, front *pipes) {
		said := make(chan string)
		response, reader := front.exchange(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket", func(conn io.Writer) {
			for text := range said {
				_, _ = io.WriteString(conn, text)
			}
		})
		defer close(said)
		require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
		for range 3 {
			time.Sleep(time.Hour)
			said <- "ping\n"
			text, err := reader.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ping\n", text)
		}
	})
}

// TestStreamsInBothDirectionsMayPause: after the response has begun, such as in gRPC streams, only
// --client-timeout limits pauses.
func TestStreamsInBothDirectionsMayPause(t *testing.T) {
	both := func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		_, _ = io.Copy(flushing{w, rc}, r.Body)
	}
	proxied(t, both, func(t *testing.T, front *pipes) {
		client := newHTTP2(front.dial)
		defer client.CloseIdleConnections()
		body, write := io.Pipe()
		response, err := client.Post("http://proxy/", "text/plain", body)
		require.NoError(t, err)
		defer response.Body.Close()
		reader := bufio.NewReader(response.Body)
		for range 60 {
			time.Sleep(50 * time.Second)
			_, err := io.WriteString(write, "ping\n")
			require.NoError(t, err)
			text, err := reader.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ping\n", text)
		}
		_, err = reader.ReadString('\n')
		require.Error(t, err, "a pause of a minute ends the stream")
	})
}

type flushing struct {
	io.Writer
	rc *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	_ = f.rc.Flush()
	return n, err
}

// TestSlowRequestsAreCutOff: the headers have their own timeout, and so have the bodies of requests that net/http answers.
func TestSlowRequestsAreCutOff(t *testing.T) {
	for _, head := range []string{"", "OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 100\r\n\r\n"} {
		proxied(t, hello, func(t *testing.T, front *pipes) {
			conn, err := front.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			go func() {
				_, _ = io.WriteString(conn, head)
				drip(1, time.Second, 1<<20)(conn)
			}()
			began := time.Now()
			_, err = io.ReadAll(conn)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), requestTime, head)
		})
	}
}

// TestAnUpstreamThatReadsNoBodyIsTimedOut: the client sends its body at once.
func TestAnUpstreamThatReadsNoBodyIsTimedOut(t *testing.T) {
	for name, read := range map[string]int64{"nothing": 0, "a part": 1 << 19} {
		t.Run(name, func(t *testing.T) {
			proxied(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, read)
				time.Sleep(time.Hour)
			}, func(t *testing.T, front *pipes) {
				began := time.Now()
				response, _ := front.exchange(t, megabyte, drip(1<<16, 0, 1<<20))
				require.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
				require.Equal(t, time.Second, time.Since(began))
			}, responseWithin(time.Second))
		})
	}
}

func responseWithin(d time.Duration) func(*Options) {
	return func(o *Options) { o.UpstreamTimeout = d }
}
