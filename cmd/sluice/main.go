// Command sluice serves rate limits over HTTP, checks rule files, replays access logs through rate
// limits, shows what a change of a rule file does, and suggests limits.
//
//	sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" --by ip access.log
//	sluice check limits.yaml
//	sluice replay --config limits.yaml access.log
//	sluice plan limits.old.yaml limits.yaml access.log
//	sluice suggest --untouched 99.9% access.log
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
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/errtext"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process, even if it waits for its output
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// The long help of the commands.
var (
	//go:embed help/replay.txt
	replayHelp string
	//go:embed help/compare.txt
	compareHelp string
	//go:embed help/check.txt
	checkHelp string
	//go:embed help/plan.txt
	planHelp string
	//go:embed help/serve.txt
	serveHelp string
	//go:embed help/suggest.txt
	suggestHelp string
)

// streams has the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the run failed, or a check found something; for plan: a threshold is exceeded
	exitUsage  = 2 // the command line is invalid; nothing was read or written; for plan: any failure
)

// run is main with its dependencies as parameters. It returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	out := &firstError{Writer: s.out}
	s.out = out
	root := rootCommand(s)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if out.err != nil && (err == nil || errors.Is(err, errReported)) { // cobra ignores the errors of the help
		err = out.err
		if command.Name() == "plan" {
			err = exitError{err, exitUsage}
		}
	}
	exitCode := exitFailed
	var coded exitError
	if errors.As(err, &coded) {
		exitCode = coded.code
	}
	var usage usageError
	var faults *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(s.err, "sluice:", withoutPackage(err))
		return exitUsage
	case errors.As(err, &faults): // each line begins with its position, for editors
		fmt.Fprintln(s.err, faults)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(s.err, "sluice: interrupted")
	case !errors.Is(err, errReported):
		fmt.Fprintln(s.err, "sluice:", withoutPackage(err))
	}
	return exitCode
}

// firstError remembers the first error of a writer, so that no command must check each line.
type firstError struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *firstError) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

func rootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Serve rate limits, check rule files, try them on access logs, and suggest limits",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v%s; see %s --help", err, similarFlag(c, err), c.CommandPath())
	})
	root.AddCommand(compareCommand(s), replayCommand(s), planCommand(s), suggestCommand(s), checkCommand(s), serveCommand(s))
	refuseUnknownShells(root)
	root.SetHelpCommand(&cobra.Command{ // unlike cobra's, it returns an error for an unknown command
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
	})
	return root
}

// refuseUnknownShells makes an unknown shell an error of the command completion. Without it, cobra prints
// the help in place of the script, and the exit status is 0.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown shell %q: want bash, fish, powershell or zsh", args[0])
			}
			return c.Help()
		}
	}
}

// withoutPackage returns the text of an error without the name of its package, which users of the
// command do not know.
func withoutPackage(err error) string {
	text := err.Error()
	for _, name := range [...]string{"accesslog", "replay", "suggest", "sluice", "compose", "algo"} {
		text = strings.TrimPrefix(text, name+": ")
	}
	return text
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

func noCommand(name string) error {
	return usagef("unknown command %q: want compare, replay, plan, suggest, check, serve or completion; see sluice --help", name)
}

// errReported means that a check found errors, and has already printed them.
var errReported = errors.New("errors were reported")

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitError is an error with its exit code.
type exitError struct {
	error
	code int
}

// Unwrap returns the error without the exit code.
func (e exitError) Unwrap() error { return e.error }

// version returns the module's version, as the go command stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
