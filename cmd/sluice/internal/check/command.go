// Package check is the command sluice check.
package check

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check rule files and explain their rules",
		Long:    help,
		Example: "  sluice check limits.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			return runCheck(c.Context(), args, s)
		},
	}
}

func runCheck(ctx context.Context, names []string, s cli.Streams) error {
	if len(names) == 0 {
		return cli.Usagef("no file to check; name one or more, such as limits.yaml, or - for standard input")
	}
	for i, name := range names {
		if name == "-" && slices.Contains(names[:i], "-") {
			return cli.Usagef("standard input (-) can be read only once")
		}
		if err := rules.Stat(name); err != nil && name != "-" {
			return err
		}
	}
	return rules.Each(ctx, names, s, func(i int, name string, f *config.File) error {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		explained := report.Text(reports, "check", struct {
			Name string
			*config.File
		}{name, f})
		if _, err := io.WriteString(s.Out, explained); err != nil {
			return err
		}
		if names := f.LacksTrusted(); len(names) > 0 {
			fmt.Fprintf(s.Err, "%s: warning: %s: %s; add the proxy's address to trusted, or write trusted: [] if clients connect directly\n",
				name, rules.NoTrustedProxy, readable.List(names, ", "))
		}
		return nil
	})
}

//go:embed report.tmpl
var reportText string

var reports = report.Template(reportText, template.FuncMap{
	"name": rules.Name, "text": rules.Text, "rates": rules.Rates, "capacity": capacity, "bounds": bounds, "atTheSameTime": atTheSameTime, "heldFor": heldFor,
})

// capacity returns the most units that the rule admits at once.
func capacity(r *config.Rule) string {
	unit := rules.BoundUnit(r)
	if r.Cost.Units > 1 {
		unit = rules.Charged(r) + "unit"
	}
	return readable.Plural(config.Capacity(r.Policy), unit)
}

// bounds returns the most that a rule can admit for one key in any of the usual intervals
// and in any period of its own limits.
func bounds(r *config.Rule) (all []string) {
	intervals := slices.Collect(maps.Keys(rules.UsualIntervals))
	for _, part := range backtest.Parts(r.Policy) {
		intervals = append(intervals, part.Limit().Period)
	}
	slices.Sort(intervals)
	for i, interval := range slices.Compact(intervals) {
		bound := rules.Bound(r, interval)
		most := rules.BoundText(bound)
		if i == 0 {
			most = rules.BoundUnits(bound, rules.BoundUnit(r))
		}
		all = append(all, most+" in any "+rules.IntervalText(interval))
	}
	return all
}

// atTheSameTime returns the most requests, or bytes for cost: bytes, of one key that a rule for held units admits at the same time.
func atTheSameTime(r *config.Rule) string {
	units := capacity(r)
	if r.Cost.Units > 1 {
		return fmt.Sprintf("%s (%s)", readable.Plural(config.Capacity(r.Policy)/r.Cost.Units, "request"), units)
	}
	return units
}

// heldFor returns the shortest and the longest time for which units are held that nobody releases or renews.
func heldFor(r *config.Rule) string {
	_, taken, _ := r.Policy.Step(nil, nil, time.Unix(0, 0), 1) // at the beginning of a slot; only a state can cause an error
	return fmt.Sprintf("%s to %s", readable.Exact(r.Policy.Limit().Period), readable.Rounded(taken.ResetAfter))
}

//go:embed help.txt
var help string
