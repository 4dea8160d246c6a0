package serve

import (
	"context"
	_ "embed"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

//go:embed help.txt
var help string

const serveExamples = `  sluice serve --limit "gcra 100/m burst=20" --by ip --upstream http://localhost:3000
  sluice serve --config limits.yaml --upstream http://localhost:3000 --listen :8080 --store sqlite:limits.db
  sluice serve --config limits.yaml --api unix:/tmp/sluice.sock --store redis://localhost:6379
  curl --unix-socket /tmp/sluice.sock -d '{"key":"203.0.113.7","cost":3,"rule":"client"}' http://sluice/v1/allow`

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Limit requests as a reverse proxy, as a decision service, or both",
		Long:    help,
		Example: serveExamples,
		Args:    cli.NoArgs("to name the program behind the proxy, use --upstream http://HOST:PORT"),
		RunE:    func(c *cobra.Command, _ []string) error { return runServe(c.Context(), &f, s) },
	}
	f.Define(c.Flags())
	return c
}

// runServe maps signals to a reload, a shutdown, and an immediate end. A slow reload does not delay
// the end.
func runServe(ctx context.Context, f *serveFlags, s cli.Streams) error {
	// serving is not derived from ctx, which cannot report a second interrupt.
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ends := make(chan os.Signal, 8)
	reloads := make(chan os.Signal, 1) // drops a signal while another waits: that reload has not begun to read
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	signal.Notify(reloads, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // otherwise the process would end if the reader of its log does
	defer func() {
		if serving.Err() == nil { // else a late signal must not turn the shutdown into a failure
			signal.Stop(ends)
			signal.Stop(reloads)
			close(ends)
		}
	}()
	var open atomic.Pointer[Server] // nil until the server is open
	go func() {
		for sig := range ends {
			switch server := open.Load(); {
			case serving.Err() == nil && sig == os.Interrupt: // a person is waiting
				stop(errInterrupted)
			case serving.Err() == nil:
				stop(nil)
			case server != nil:
				server.Close()
			}
		}
	}()
	o, err := cli.Await(serving, func() (Options, error) { return f.options(s.Err) })
	if err != nil {
		return err
	}
	takeStandardLog(o.Log)
	server, err := cli.Await(serving, func() (*Server, error) { return New(serving, o) })
	if err != nil {
		return err
	}
	defer server.Close()
	open.Store(server)
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-serving.Done():
				return
			case <-reloads:
				_ = server.Reload(serving) // it logs its errors
			}
		}
	})
	err = server.Serve(serving)
	stop(nil)
	reloading.Wait()
	return err
}
