package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/serve"
)

const serveExamples = `  sluice serve --limit "gcra 100/m burst=20" --by ip --upstream http://localhost:3000
  sluice serve --config limits.yaml --upstream http://localhost:3000 --listen :8080 --store sqlite:limits.db
  sluice serve --config limits.yaml --api unix:/tmp/sluice.sock --store redis://localhost:6379
  curl --unix-socket /tmp/sluice.sock -d '{"key":"user:42","cost":3,"limit":"api"}' http://sluice/v1/allow`

func serveCommand(s streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Limit requests as a reverse proxy, as a decision service, or both",
		Long:    serveHelp,
		Example: serveExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("serve takes no argument %q; to name the program behind the proxy, use --upstream http://HOST:PORT", args[0])
			}
			return nil
		},
	}
	f.define(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return runServe(c.Context(), &f, s) }
	return c
}

func runServe(ctx context.Context, f *serveFlags, s streams) error {
	// serving is not derived from ctx, which cannot report a second interrupt.
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	h := handleSignals(stop)
	defer h.release()
	o, err := await(serving, func() (serve.Options, error) { return f.options(s.err) })
	if err != nil {
		return err
	}
	defer serve.TakeStandardLog(o.Log)()
	server, err := openServer(serving, func() (*serve.Server, error) { return serve.New(serving, o) })
	if err != nil {
		return err
	}
	defer server.Close()
	var reloading sync.WaitGroup
	h.server.Store(server)
	reloading.Go(func() { h.reload(serving, server) })
	err = server.Serve(serving)
	stop(nil)
	reloading.Wait()
	if errors.Is(err, serve.ErrCut) {
		return errors.New("requests in flight were cut off; to give them more time, set a longer --drain")
	}
	return err
}

// openServer returns when ctx ends, even if opening the store does not. A server that is opened
// later is closed.
func openServer(ctx context.Context, open func() (*serve.Server, error)) (*serve.Server, error) {
	return await(ctx, func() (*serve.Server, error) {
		server, err := open()
		if err == nil && ctx.Err() != nil {
			server.Close()
			return nil, ctx.Err()
		}
		return server, err
	})
}

// signalHandler maps signals to a reload, a shutdown, and an immediate end. It only waits for
// signals, so a slow reload does not delay the end of the program.
type signalHandler struct {
	signals chan os.Signal
	stop    context.CancelCauseFunc
	server  atomic.Pointer[serve.Server] // nil until the server is open
	reloads chan struct{}                // holds one pending reload
	ending  atomic.Bool
	over    chan struct{}
}

// handleSignals starts a signalHandler. stop starts the shutdown.
func handleSignals(stop context.CancelCauseFunc) *signalHandler {
	h := &signalHandler{
		signals: make(chan os.Signal, 8), stop: stop,
		reloads: make(chan struct{}, 1), over: make(chan struct{}),
	}
	signal.Notify(h.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go h.run()
	return h
}

// release restores the default effect of signals, unless a shutdown has begun: a late signal must
// not turn it into a failure.
func (h *signalHandler) release() {
	close(h.over)
	if !h.ending.Load() {
		signal.Stop(h.signals)
	}
}

func (h *signalHandler) run() {
	for {
		select {
		case <-h.over:
			return
		case s := <-h.signals:
			server := h.server.Load()
			switch {
			case s == syscall.SIGHUP:
				h.requestReload()
			case !h.ending.Swap(true):
				h.stop(stopCause(s))
			case server != nil:
				server.Close()
			}
		}
	}
}

// stopCause returns serve.ErrInterrupted for an interrupt, because a person is waiting.
func stopCause(s os.Signal) error {
	if s == os.Interrupt {
		return serve.ErrInterrupted
	}
	return nil
}

func (h *signalHandler) requestReload() {
	select {
	case h.reloads <- struct{}{}:
	default: // a pending reload has not begun to read
	}
}

// reload runs requested reloads one after the other until ctx ends.
func (h *signalHandler) reload(ctx context.Context, server *serve.Server) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.reloads:
			_ = server.Reload(ctx) // it logs its errors
		}
	}
}
