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
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
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
		Args:    cobra.ArbitraryArgs,
		RunE:    func(c *cobra.Command, args []string) error { return r.run(c.Context(), args, s.Out) },
	}
	c.Flags().SortFlags = false
	r.define(c.Flags())
	c.Flags().BoolVar(&r.all, "all", false, "reset all keys of the rule, instead of those that are named")
	cli.CheckValues(c.Flags())
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
	defer r.opened.Close()
	if r.all {
		return r.clear(ctx, out)
	}
	for _, key := range keys {
		found, err := r.remove(ctx, r.text(key))
		shown := readable.Graphic(key)
		switch {
		case err != nil:
			return r.failure(err)
		case found:
			fmt.Fprintf(out, "rule %s: %s is reset\n", r.name, shown)
		default:
			fmt.Fprintf(out, "rule %s: %s has no record, so all its units were available\n", r.name, shown)
		}
	}
	return nil
}

// text returns the text of the record of a key, which is written as sluice keys prints it, or is a plain key.
func (r *reset) text(key string) string {
	group, rest := "", key
	if end := strings.Index(key, "}"); strings.HasPrefix(key, "{") && end > 0 {
		group, rest = key[:end+1], key[end+1:]
	}
	text := group + r.prefix + rest
	if _, ok := driver.ParseKey(text); ok || strings.Contains(text, "%#") {
		return text
	}
	return driver.RuleKey{Rule: r.prefix, Key: key}.String()
}

var errBusy = fmt.Errorf("other programs have changed the record again and again for %v; run the command again", callTime)

// remove deletes the record with a text, if there is one.
func (r *reset) remove(ctx context.Context, text string) (found bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errBusy)
	defer cancel()
	for {
		records, _, err := r.opened.Load(ctx, text)
		if err != nil || records[0].Version == 0 {
			return false, err
		}
		_, swapped, err := r.opened.CompareAndSwap(ctx, storage.Swap{Key: text, Old: records[0].Version})
		switch {
		case swapped:
			return true, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil && !errors.Is(err, storage.ErrContended):
			return false, err
		}
	}
}

func (r *reset) clear(ctx context.Context, out io.Writer) error {
	options := sluice.Options[string]{Namespace: r.namespace, Timeout: callTime, Group: func(string) string { return "" }} // its keys may be in groups
	l, err := options.New(r.opened.Store, sluice.Rule[string]{Name: r.name, Policy: r.policy})
	if err != nil {
		return err
	}
	deleted, err := l.Clear(ctx, r.name)
	if err != nil {
		return fmt.Errorf("%w; %s reset before", r.failure(err), readable.Plural(int64(deleted), "key"))
	}
	_, err = fmt.Fprintf(out, "rule %s: %s reset\n", r.name, readable.Plural(int64(deleted), "key"))
	return err
}
