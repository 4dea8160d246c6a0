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
	// Serving is no child of ctx, which hears of no second interrupt.
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

// openServer ends with ctx, which not all stores heed while they are opened. What
// comes of that afterwards is closed.
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

// signalHandler does what signals say: reload, end, end at once. It waits for nothing but
// them, so that a reload that takes its time keeps nobody from ending the program.
type signalHandler struct {
	signals chan os.Signal
	stop    context.CancelCauseFunc
	server  atomic.Pointer[serve.Server] // nil until it is there
	reloads chan struct{}                // has room for one: who asks while one is due gets that one
	ending  atomic.Bool
	over    chan struct{}
}

// handleSignals begins. stop ends the serving.
func handleSignals(stop context.CancelCauseFunc) *signalHandler {
	h := &signalHandler{
		signals: make(chan os.Signal, 8), stop: stop,
		reloads: make(chan struct{}, 1), over: make(chan struct{}),
	}
	signal.Notify(h.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go h.run()
	return h
}

// release lets signals do again what they do to other programs. Once one has said to
// end they are kept: those that come late must not make a failure of it.
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

// stopCause tells a person, who sends an interrupt and waits, from an orchestrator.
func stopCause(s os.Signal) error {
	if s == os.Interrupt {
		return serve.ErrInterrupted
	}
	return nil
}

func (h *signalHandler) requestReload() {
	select {
	case h.reloads <- struct{}{}:
	default: // one is due, and has not begun to read
	}
}

// reload reloads as often as was asked, one after the other, until ctx ends.
func (h *signalHandler) reload(ctx context.Context, server *serve.Server) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.reloads:
			_ = server.Reload(ctx) // it logs
		}
	}
}
