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
  curl --unix-socket /tmp/sluice.sock -d '{"key":"203.0.113.7","cost":3,"limit":"client"}' http://sluice/v1/allow`

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
		RunE: func(c *cobra.Command, _ []string) error { return runServe(c.Context(), &f, s) },
	}
	f.define(c.Flags())
	return c
}

func runServe(ctx context.Context, f *serveFlags, s streams) error {
	// serving is not derived from ctx, which cannot report a second interrupt.
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	h := &signalHandler{ends: make(chan os.Signal, 8), reloads: make(chan os.Signal, 1)}
	signal.Notify(h.ends, os.Interrupt, syscall.SIGTERM)
	signal.Notify(h.reloads, syscall.SIGHUP)
	over := make(chan struct{})
	defer close(over)
	go h.handleEnds(over, stop)
	o, err := await(serving, func() (serve.Options, error) { return f.options(s.err) })
	if err != nil {
		return err
	}
	defer serve.TakeStandardLog(o.Log)()
	server, err := await(serving, func() (*serve.Server, error) { return serve.New(serving, o) })
	if err != nil {
		return err
	}
	defer server.Close()
	var reloading sync.WaitGroup
	h.server.Store(server)
	reloading.Go(func() {
		for {
			select {
			case <-serving.Done():
				return
			case <-h.reloads:
				_ = server.Reload(serving) // it logs its errors
			}
		}
	})
	err = server.Serve(serving)
	stop(nil)
	reloading.Wait()
	if errors.Is(err, serve.ErrCut) {
		return errors.New("requests in flight were cut off; to give them more time, set a longer --drain")
	}
	return err
}

// signalHandler maps signals to a reload, a shutdown, and an immediate end. A slow reload does not
// delay the end.
type signalHandler struct {
	ends    chan os.Signal
	reloads chan os.Signal               // drops a signal while another waits: that reload has not begun to read
	server  atomic.Pointer[serve.Server] // nil until the server is open
}

// handleEnds calls stop at the first signal, and closes the server at the others, until over is
// closed. Without a signal, all signals then have their default effect again. After a signal they
// do not: a late signal must not turn the shutdown into a failure.
func (h *signalHandler) handleEnds(over <-chan struct{}, stop context.CancelCauseFunc) {
	for first := true; ; first = false {
		select {
		case <-over:
			if first {
				signal.Stop(h.ends)
				signal.Stop(h.reloads)
			}
			return
		case s := <-h.ends:
			switch server := h.server.Load(); {
			case first && s == os.Interrupt: // a person is waiting
				stop(serve.ErrInterrupted)
			case first:
				stop(nil)
			case server != nil:
				server.Close()
			}
		}
	}
}
