package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/internal/serve"
)

func serveCommand(s streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Limit requests: a reverse proxy, a decision service, or both",
		Long:    serveHelp,
		Example: serveExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("serve takes no %q; the program to stand in front of is --upstream http://HOST:PORT", args[0])
			}
			return nil
		},
	}
	f.define(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return runServe(c.Context(), &f, s) }
	return c
}

func runServe(ctx context.Context, f *serveFlags, s streams) error {
	o, err := f.options(s.err)
	if err != nil {
		return err
	}
	// Before anything is opened, so that no signal is missed; and apart from ctx,
	// which ends at the first interrupt and hears of no second one.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	server, err := serve.New(ctx, o)
	if err != nil {
		return err
	}
	defer server.Close()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go heed(signals, serving, server, stop, o.Log)
	err = server.Serve(serving)
	if errors.Is(err, serve.ErrCut) {
		return errors.New("requests that had not ended were cut off")
	}
	return err
}

// heed does what signals say until serving is over: reload, end, end at once.
func heed(signals <-chan os.Signal, serving context.Context, server *serve.Server, stop func(), log *slog.Logger) {
	for s := range signals {
		switch {
		case s == syscall.SIGHUP && serving.Err() == nil:
			_ = server.Reload() // which logs
		case s == syscall.SIGHUP:
		case serving.Err() == nil:
			stop()
		default:
			log.Warn("a second signal; not waiting for requests")
			server.Close()
		}
	}
}
