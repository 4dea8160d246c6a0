package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/storage/memory"
)

// held is a handler that blocks requests for /held until release is closed.
type held struct{ arrived, release chan struct{} }

func newHeld() *held { return &held{make(chan struct{}, 1), make(chan struct{})} }

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/held" {
		hello(w, r)
		return
	}
	h.arrived <- struct{}{}
	select {
	case <-h.release:
		hello(w, r)
	case <-r.Context().Done():
	}
}

// begin sends a request for /held and returns when the upstream has received it.
func (h *held) begin(w *testServer) <-chan error {
	failed := make(chan error, 1)
	go func() {
		response, err := client.Get(w.proxyURL("/held"))
		if err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = http.ErrAbortHandler
			}
		}
		failed <- err
	}()
	<-h.arrived
	return failed
}

// TestShutdownDelayEnds: after the delay the listeners close. After errInterrupted there is no delay.
func TestShutdownDelayEnds(t *testing.T) {
	for cause, delay := range map[error]time.Duration{nil: 5 * time.Second, errInterrupted: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{
				options: Options{ShutdownDelay: 5 * time.Second, Drain: time.Minute}, log: slog.New(slog.DiscardHandler), sampled: sampledTo(io.Discard),
				store: &stores.Store{Store: new(memory.Store)}, purgeEvery: purgeEvery,
			}
			s.health.Store(new(error))
			s.current.Store(&limiters{file: new(config.File)})
			s.background, s.stop = context.WithCancel(context.Background())
			front := newPipes()
			s.api = s.server(front, http.HandlerFunc(hello))
			ctx, stop := context.WithCancelCause(context.Background())
			served := make(chan error)
			go func() { served <- s.Serve(ctx) }()
			synctest.Wait()
			began := time.Now()
			stop(cause)
			<-front.closed
			require.Equal(t, delay, time.Since(began))
			require.True(t, s.draining.Load())
			require.NoError(t, <-served)
		})
	}
}

func TestShutdownWaitsForRequests(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneByIP, withUpstream(t, h.ServeHTTP))
	failed := h.begin(w)
	w.stop()
	require.Eventually(t, w.draining.Load, testTimeout, time.Millisecond)
	close(h.release)
	require.NoError(t, <-failed)
	require.NoError(t, w.ended())
}

func TestShutdownCutsRequestsAfterDrain(t *testing.T) {
	h := newHeld()
	w := startTestServer(t, oneByIP, withUpstream(t, h.ServeHTTP), func(o *Options) { o.Drain = time.Millisecond })
	failed := h.begin(w)
	w.stop()
	require.ErrorIs(t, w.ended(), errCut)
	require.Error(t, <-failed)
}

// TestIdleConnectionsAreNotCutRequests: new and kept-alive connections without a request do not
// count as cut off.
func TestIdleConnectionsAreNotCutRequests(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, hello))
	for _, request := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		_, reader := sendText(t, w, request)
		if request == "" {
			continue
		}
		require.Equal(t, "hello", contentOf(t, readResponse(t, reader).Body))
		require.Eventually(t, func() bool { return !w.isBusy() }, testTimeout, time.Millisecond)
	}
	w.stop()
	require.Eventually(t, w.draining.Load, testTimeout, time.Millisecond)
	w.Close()
	require.NoError(t, w.ended())
	require.Contains(t, w.logged.String(), "cut=false")
}

// TestShutdownCutsUpgrades: a shutdown does not wait for upgraded connections, which have no end.
func TestShutdownCutsUpgrades(t *testing.T) {
	w := startTestServer(t, oneByIP, withUpstream(t, echo))
	_, reader, _ := upgrade(t, w)
	w.stop()
	require.NoError(t, w.ended())
	_, err := reader.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}
