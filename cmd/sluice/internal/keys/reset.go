package keys

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
)

//go:embed reset_help.txt
var resetHelp string

const resetExamples = `  sluice reset --store redis://localhost:6379 --config limits.yaml --rule client 203.0.113.7
  sluice reset --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login alice
  sluice reset --store sqlite:app.db --policy "fixedwindow 5/15min" --rule login --all`

// ResetCommand implements [cli.NewCommand] for sluice reset.
func ResetCommand(s cli.Streams) *cobra.Command {
	var r reset
	c := &cobra.Command{
		Use:     "reset [KEY...]",
		Short:   "Reset keys of a rule on a store, so that all their units are available",
		Long:    resetHelp,
		Example: resetExamples,
		RunE:    func(c *cobra.Command, args []string) error { return r.run(c.Context(), args, s.Out) },
	}
	r.define(c.Flags())
	c.Flags().BoolVar(&r.all, "all", false, "reset all keys of the rule, instead of those that are named")
	return c
}

// reset is the command line of sluice reset.
type reset struct {
	rule
	all bool
}

func (r *reset) run(ctx context.Context, keys []string, out io.Writer) error {
	switch {
	case r.all && len(keys) > 0:
		return cli.Usagef("--all resets all keys; leave out --all or the keys")
	case !r.all && len(keys) == 0:
		return cli.Usagef("no key; want a key as sluice keys prints it, or --all")
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.store.Close()
	if r.all {
		return r.clear(ctx, out)
	}
	stored, err := r.storedKeys(keys)
	if err != nil {
		return err
	}
	var missing []string
	var problems []error
	var done strings.Builder // printed after the last reset, because printing ends the process if the reader of a pipe has ended
	e := engine.New(r.store.Store, engine.Options{Timeout: callTime})
	for _, key := range stored {
		found, err := e.Reset(ctx, key)
		if errors.Is(err, storage.ErrContended) {
			err = fmt.Errorf("other programs keep changing or locking the record; run the command again: %w", storage.ErrContended)
		}
		switch {
		case err != nil:
			problems = append(problems, r.failure(ctx, &storage.KeyError{Key: key, Err: err}))
		case found:
			fmt.Fprintf(&done, "rule %s: %s is reset\n", printable(r.name), r.formatKey(key))
		default:
			missing = append(missing, r.formatKey(key))
		}
	}
	fmt.Fprint(out, done.String())
	return errors.Join(append(problems, r.noRecord(missing))...)
}

func (r *reset) clear(ctx context.Context, out io.Writer) error {
	options := sluice.Options[string]{Namespace: r.namespace, Timeout: callTime}
	l, err := options.New(r.store.Store, sluice.Rule[string]{Name: r.name, Policy: r.policy})
	if err != nil {
		return err
	}
	deleted, err := l.Clear(ctx, r.name)
	if deleted > 0 {
		fmt.Fprintf(out, "rule %s: %s reset\n", printable(r.name), readable.Plural(int64(deleted), "key"))
		err = errors.Unwrap(err) // Clear has added the number to it
	}
	switch {
	case err != nil:
		return r.failure(ctx, err)
	case deleted == 0:
		fmt.Fprintln(out, r.noKeys())
	}
	return nil
}
