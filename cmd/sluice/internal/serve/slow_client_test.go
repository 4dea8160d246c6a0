package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/storage/memory"
)

// pipes is a listener whose connections are in memory, so that synctest owns their time.
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

// proxied runs test in a bubble in which handler is behind the proxy. The proxy has the
// default limits for slow clients, and a rule that allows everything.
func proxied(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, front *pipes), changes ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Hour) // of the bubble's time, for what ends with its connection
		front, back := newPipes(), newPipes()
		behind := &http.Server{Handler: handler}
		go behind.Serve(back)
		defer behind.Close()

		o := Options{
			Upstream: &url.URL{Scheme: "http", Host: "upstream"}, ClientTimeout: time.Minute,
			MinBodyRate: DefaultMinBodyRate, BodyGrace: DefaultBodyGrace,
		}
		for _, change := range changes {
			change(&o)
		}
		store := new(memory.Store)
		metrics, err := newMetrics("", store)
		require.NoError(t, err)
		s := &Server{options: o, log: slog.New(slog.DiscardHandler), sampled: sampledTo(io.Discard), metrics: metrics, store: &opened{Store: store}}
		s.transport = s.options.newTransport()
		s.transport.DialContext = back.dial
		defer s.transport.CloseIdleConnections()
		file, err := config.Parse("limits.yaml", []byte("rules: [{name: all, policy: gcra 1000/s}]"))
		require.NoError(t, err)
		limits, err := s.newLimits(file)
		require.NoError(t, err)
		h, err := s.proxyHandler(limits)
		require.NoError(t, err)
		s.background, s.stop = context.WithCancel(context.Background())
		l := s.server(front, h)
		go l.http.Serve(l.Listener)
		defer l.http.Close()
		defer s.stop()
		test(t, front)
	})
}

// exchange sends a request whose body write writes, and returns the response.
func (p *pipes) exchange(t *testing.T, header string, write func(conn net.Conn)) (*http.Response, *bufio.Reader) {
	t.Helper()
	conn, err := p.dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_, _ = io.WriteString(conn, header+"\r\n\r\n")
		write(conn)
	}()
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	return response, reader
}

// drip writes n bytes each pause, until it fails or has written total.
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

func onConn(write func(io.Writer)) func(net.Conn) { return func(conn net.Conn) { write(conn) } }

// consume reads the whole body, and reports how long it was and the error at its end.
func consume(length *int64, failure *error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*length, *failure = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, *length)
	}
}

const megabyte = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576"

func TestSlowBodiesAreCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		write func(io.Writer)
		after time.Duration // at the latest
	}{
		"nothing":                 {func(io.Writer) {}, 10 * time.Second},
		"a byte each half second": {drip(1, time.Second/2, 1<<20), 11 * time.Second},
		"nearly the rate":         {drip(200, time.Second, 1<<20), 61 * time.Second},
		"fast, then slow": {func(w io.Writer) {
			drip(1<<19, 0, 1<<19)(w)
			drip(1, time.Second/2, 1<<20)(w)
		}, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var length int64
			var failure error
			proxied(t, consume(&length, &failure), func(t *testing.T, front *pipes) {
				began := time.Now()
				response, rest := front.exchange(t, megabyte, onConn(c.write))
				require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
				require.GreaterOrEqual(t, time.Since(began), DefaultBodyGrace)
				require.LessOrEqual(t, time.Since(began), c.after)
				_, err := io.Copy(io.Discard, rest)
				require.NoError(t, err, "the connection ends")
				synctest.Wait()
				require.Error(t, failure, "the upstream's request ends, too")
			})
		})
	}
}

func TestSlowBodiesOverHTTP2AreCutOff(t *testing.T) {
	var length int64
	var failure error
	proxied(t, consume(&length, &failure), func(t *testing.T, front *pipes) {
		client := newHTTP2(front)
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

func newHTTP2(front *pipes) *http.Client {
	transport := &http.Transport{DialContext: front.dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// TestUploadsThatKeepTheRate may take as long as they want.
func TestUploadsThatKeepTheRate(t *testing.T) {
	for name, write := range map[string]func(io.Writer){
		"steadily":   drip(256, time.Second, 1<<20), // for an hour and more
		"in bursts":  drip(4096, 9*time.Second, 1<<20),
		"after 9 s":  func(w io.Writer) { time.Sleep(9 * time.Second); drip(1<<20, 0, 1<<20)(w) },
		"all atonce": drip(1<<20, 0, 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var length int64
			var failure error
			proxied(t, consume(&length, &failure), func(t *testing.T, front *pipes) {
				response, _ := front.exchange(t, megabyte, onConn(write))
				require.Equal(t, http.StatusOK, response.StatusCode)
				require.NoError(t, failure)
				require.EqualValues(t, 1<<20, length)
			})
		})
	}
}

func TestSlowUpstreamDoesNotCutTheClient(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 1<<16)
		for {
			time.Sleep(4 * time.Minute)
			if _, err := io.ReadFull(r.Body, buffer); err != nil {
				_, _ = io.WriteString(w, err.Error())
				return
			}
		}
	}
	proxied(t, read, func(t *testing.T, front *pipes) {
		response, _ := front.exchange(t, megabyte, onConn(drip(1<<20, 0, 1<<20)))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, io.EOF.Error(), contentOf(t, response.Body))
	})
}

// TestSlowResponses: a download and server-sent events go on for an hour, though the
// client sends nothing any more.
func TestSlowResponses(t *testing.T) {
	for _, header := range []string{"GET / HTTP/1.1\r\nHost: x", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0"} {
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
			response, _ := front.exchange(t, header, func(net.Conn) {})
			require.Len(t, contentOf(t, response.Body), 60*len("data: x\n\n"))
			require.Equal(t, time.Hour, time.Since(began))
		})
	}
}

func TestWebSocketsMayPause(t *testing.T) {
	proxied(t, echo, func(t *testing.T, front *pipes) {
		said := make(chan string)
		response, reader := front.exchange(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket", func(conn net.Conn) {
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

// TestStreamsInBothDirectionsMayPause, as of gRPC, may say little: the upstream has answered, and
// only --client-timeout holds.
func TestStreamsInBothDirectionsMayPause(t *testing.T) {
	both := func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		_, _ = io.Copy(flushing{w, rc}, r.Body)
	}
	proxied(t, both, func(t *testing.T, front *pipes) {
		client := newHTTP2(front)
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
		require.Error(t, err, "a minute without a byte ends it")
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

// TestSlowHeadersAreCutOff, whatever else is allowed.
func TestSlowHeadersAreCutOff(t *testing.T) {
	proxied(t, hello, func(t *testing.T, front *pipes) {
		conn, err := front.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		go drip(1, time.Second, 1<<20)(conn)
		began := time.Now()
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), headerTime)
	})
}
