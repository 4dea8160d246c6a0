// Package cli has what all commands share: how they run, their exit codes, and the checks of their flags.
package cli

import (
	"context"
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

// Streams has the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exit codes.
const (
	exitOK     = 0
	ExitFailed = 1 // the run failed, or a check found something; for plan: a threshold is exceeded
	ExitUsage  = 2 // the command line is invalid; nothing was read or written; for plan: any failure
)

// NewCommand makes a command.
type NewCommand = func(Streams) *cobra.Command

// Main is main of a program with these commands.
func Main(commands ...NewCommand) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process, even if it waits for its output
	os.Exit(Run(ctx, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, commands...))
}

// Run is main with its dependencies as parameters. It returns the exit code.
func Run(ctx context.Context, args []string, s Streams, commands ...NewCommand) int {
	out := &FirstError{Writer: s.Out}
	s.Out = out
	root := rootCommand(s, commands)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if out.err != nil && (err == nil || errors.Is(err, ErrReported)) { // cobra ignores the errors of the help
		err = out.err
	}
	var usage usageError
	exitCode := ExitFailed
	if errors.As(err, &usage) || command.Name() == "plan" && !errors.Is(err, ErrExceeded) {
		exitCode = ExitUsage
	}
	var faults *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &faults): // each line begins with its position, for editors
		fmt.Fprintln(s.Err, faults)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(s.Err, "sluice: interrupted")
	case !errors.Is(err, ErrReported):
		fmt.Fprintln(s.Err, "sluice:", WithoutPackage(err))
	}
	return exitCode
}

// FirstError remembers the first error of a writer, so that no command must check each line.
type FirstError struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *FirstError) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

func rootCommand(s Streams, commands []NewCommand) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Serve rate limits, check rule files, try them on access logs, and suggest limits",
		Version:       Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(args[0])
			}
			return c.Help()
		},
	}
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) && errors.Is(err, errEmpty) {
			return Usagef("--%s is empty; give it a value or leave it out", invalid.GetFlag().Name)
		}
		return Usagef("%v%s; see %s --help", err, similarFlag(c, err), c.CommandPath())
	})
	for _, newCommand := range commands {
		c := newCommand(s)
		c.Flags().SortFlags = false
		checkValues(c.Flags())
		root.AddCommand(c)
	}
	refuseUnknownShells(root)
	root.SetHelpCommand(&cobra.Command{ // unlike cobra's, it returns an error for an unknown command
		Use:   "help [COMMAND]",
		Short: "Show help for a command",
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, _ := c.Root().Find(args) // an unknown word is the rest
			if len(rest) > 0 {
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
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("unknown shell %q: want bash, fish, powershell or zsh", args[0])
		}
		return c.Help()
	}
}

// WithoutPackage returns the text of an error without the name of its package, which users of the
// command do not know.
func WithoutPackage(err error) string {
	text := err.Error()
	for _, name := range [...]string{"accesslog", "backtest", "suggest", "sluice", "compose", "algo"} {
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
	return Usagef("unknown command %q: want compare, replay, plan, suggest, check, serve, keys, reset or completion; see sluice --help", name)
}

// ErrReported means that a check found errors, and has already printed them.
var ErrReported = errors.New("errors were reported")

// ErrExceeded means that a change exceeds a threshold of plan, which the output says.
var ErrExceeded = fmt.Errorf("a threshold is exceeded: %w", ErrReported)

// usageError is an error in the command line.
type usageError struct{ error }

func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// Version returns the module's version, as the go command stamped it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
