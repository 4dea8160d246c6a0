// Package check is the command sluice check.
package check

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	var reported error
	for i, name := range names {
		name, f, err := rules.ReadOrReport(ctx, name, s)
		switch {
		case errors.Is(err, cli.ErrReported):
			reported = err
			continue
		case err != nil:
			return err
		case i > 0:
			fmt.Fprintln(s.Out)
		}
		if err := printConfig(s.Out, name, f); err != nil {
			return err
		}
		warnTrusted(s.Err, name, f)
	}
	return reported
}

// printConfig explains the rules of a file.
func printConfig(w io.Writer, name string, f *config.File) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: %s\n\n", name, readable.Plural(int64(len(f.Rules)), "rule"))
	if len(f.Trusted) > 0 {
		field := "X-Forwarded-For"
		if f.Forwarded {
			field = "Forwarded"
		}
		fmt.Fprintf(out, "  client addresses come from %s if the peer is one of %s\n\n", field, readable.List(f.Trusted, ", "))
	}
	if f.IPv6Bits != 0 {
		fmt.Fprintf(out, "  an IPv6 client is its /%d\n\n", f.IPv6Bits)
	}
	var legend [][2]string
	for _, r := range f.Rules {
		legend = append(legend, [2]string{rules.Name(&r), rules.Text(&r)})
		if fields := r.MayLack(); len(fields) > 0 {
			legend = append(legend, [2]string{"", fmt.Sprintf("requests without %s %v", readable.List(fields, " or "), r.Missing)})
		}
		legend = append(legend, [2]string{"", capacityText(&r)}, [2]string{"", boundsText(&r)})
	}
	report.Legend(out, legend)
	_, err := io.WriteString(w, out.String())
	return err
}

// warnTrusted prints a warning if rules limit by address and the file has no field trusted.
func warnTrusted(w io.Writer, name string, f *config.File) {
	if rules := f.LacksTrusted(); len(rules) > 0 {
		fmt.Fprintf(w, "%s: warning: no proxy is trusted, and %s by ip; if sluice serve --upstream, or the program, is behind a proxy, all clients share one limit; "+
			"add the proxy's address to trusted, or write trusted: [] if clients connect directly\n", name, rulesLimit(f, rules))
	}
}

// rulesLimit begins a sentence about rules that limit all requests, or those without a field, by
// address.
func rulesLimit(f *config.File, names []string) string {
	var words []string
	for _, r := range f.Rules {
		switch {
		case !slices.Contains(names, r.Name):
		case slices.Contains(r.By, config.Field{Kind: config.IP}):
			words = append(words, r.Name)
		default:
			words = append(words, fmt.Sprintf("%s (requests without %s)", r.Name, readable.List(r.MayLack(), " or ")))
		}
	}
	if len(words) == 1 {
		return "rule " + words[0] + " limits"
	}
	return "rules " + readable.List(words, ", ") + " limit"
}

// capacityText describes the rule's capacity and rates.
func capacityText(r *config.Rule) string {
	unit := "request"
	switch {
	case r.Cost.Bytes:
		unit = "byte"
	case r.Cost.Units != 1:
		unit = "unit"
	}
	return fmt.Sprintf("up to %s at once, %s in the long run",
		readable.Plural(config.Capacity(r.Policy), unit), readable.List(rules.Limits(r.Policy), " and "))
}

// boundsText describes the most that a rule can admit for one key in any of the usual intervals
// and in any period of its own limits. It is in requests, or in bytes for cost: bytes.
func boundsText(r *config.Rule) string {
	unit := "request"
	if r.Cost.Bytes {
		unit = "byte"
	}
	intervals := slices.Collect(maps.Keys(rules.UsualIntervals))
	for _, limit := range rules.Limits(r.Policy) {
		intervals = append(intervals, limit.Period)
	}
	slices.Sort(intervals)
	var all []string
	for i, interval := range slices.Compact(intervals) {
		bound := rules.RequestBound(r, interval)
		most := rules.BoundText(bound)
		if i == 0 && bound != math.MaxInt64 {
			most = readable.Plural(bound, unit)
		}
		all = append(all, most+" in any "+rules.IntervalText(interval))
	}
	return "at most " + strings.Join(all, ", ")
}

//go:embed help.txt
var help string
