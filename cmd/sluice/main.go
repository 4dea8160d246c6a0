// Command sluice serves rate limits over HTTP, checks rule files, and replays access logs
// through rate limits.
//
//	sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" --by ip access.log
//	sluice check limits.yaml
//	sluice replay --config limits.yaml access.log
//	sluice serve --config limits.yaml --upstream http://localhost:3000
//
// See "sluice --help".
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/errtext"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// The long help of the commands.
var (
	//go:embed help/replay.txt
	replayHelp string
	//go:embed help/check.txt
	checkHelp string
	//go:embed help/serve.txt
	serveHelp string
)

// streams has the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the run failed, or a check found something
	exitUsage  = 2 // the command line is invalid; nothing was read or written
)

// run is main with its dependencies as parameters. It returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Rate limiting: serve limits, check them, and replay access logs through them",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v%s; see %s --help", err, similarFlag(c, err), c.CommandPath())
	})
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(args[0])
		}
		return nil
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.AddCommand(replayCommand(s))
	root.AddCommand(checkCommand(s))
	root.AddCommand(serveCommand(s))
	root.SetHelpCommand(helpCommand())

	err := root.ExecuteContext(ctx)
	var usage usageError
	var faults *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &faults): // each line begins with its position, for editors
		fmt.Fprintln(s.err, faults)
		return exitFailed
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(s.err, "sluice: interrupted")
		return exitFailed
	}
	fmt.Fprintln(s.err, "sluice:", withoutPackage(err))
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// similarFlag returns a hint if err is about an unknown flag and c has a flag with a similar name.
func similarFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if name := errtext.Nearest(unknown.GetSpecifiedName(), names); name != "" {
		return ", did you mean --" + name + "?"
	}
	return ""
}

// helpCommand replaces cobra's help command. It returns an error for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show help for a command",
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return noCommand(rest[0])
			}
			return target.Help()
		},
	}
}

func noCommand(name string) error {
	return usagef("unknown command %q: want replay, check, serve or completion; see sluice --help", name)
}

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// version returns the module's version, as the go command stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
