package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

func checkCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check rule files and explain their rules",
		Long:    checkHelp,
		Example: "  sluice check limits.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			return runCheck(c.Context(), args, s)
		},
	}
}

func runCheck(ctx context.Context, names []string, s streams) error {
	if len(names) == 0 {
		return usagef("no file to check; name one or more, such as limits.yaml, or - for standard input")
	}
	for i, name := range names {
		if name == "-" && slices.Contains(names[:i], "-") {
			return usagef("standard input (-) can be read only once")
		}
		if err := statConfig(name); err != nil && name != "-" {
			return err
		}
	}
	var reported error
	for i, name := range names {
		name, f, err := readConfig(ctx, name, s)
		switch {
		case errors.Is(err, errReported):
			reported = err
			continue
		case err != nil:
			return err
		case i > 0:
			fmt.Fprintln(s.out)
		}
		if err := printConfig(s.out, name, f); err != nil {
			return err
		}
		warnTrusted(s.err, name, f)
	}
	return reported
}

// statConfig returns an error if the path cannot be a rule file. It does not read the file.
func statConfig(name string) error {
	_, err := statFile(name, "a rule file such as limits.yaml", "a file in it, for instance "+filepath.Join(name, "limits.yaml"))
	return err
}

// readFile reads a rule file, which may be a pipe.
func readFile(ctx context.Context, name string) (*config.File, error) {
	return await(ctx, func() (*config.File, error) { return config.Read(name) })
}

// readConfig reads a rule file, - for standard input. It returns the name for messages. It prints the
// errors in the file and then returns errReported.
func readConfig(ctx context.Context, name string, s streams) (string, *config.File, error) {
	read := config.Read
	if name == "-" {
		name, read = "standard input", func(shown string) (*config.File, error) {
			text, err := io.ReadAll(io.LimitReader(s.in, config.MaxSize+1))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", shown, err)
			}
			return config.Parse(shown, text)
		}
	}
	f, err := await(ctx, func() (*config.File, error) { return read(name) })
	var faults *config.Error
	if errors.As(err, &faults) {
		fmt.Fprintln(s.err, faults)
		err = errReported
	}
	return name, f, err
}

// printConfig explains the rules of a file.
func printConfig(w io.Writer, name string, f *config.File) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: %s\n\n", name, plural(int64(len(f.Rules)), "rule"))
	if len(f.Trusted) > 0 {
		field := "X-Forwarded-For"
		if f.Forwarded {
			field = "Forwarded"
		}
		fmt.Fprintf(out, "  client addresses come from %s if the peer is one of %s\n\n", field, list(f.Trusted, ", "))
	}
	if f.IPv6Bits != 0 {
		fmt.Fprintf(out, "  an IPv6 client is its /%d\n\n", f.IPv6Bits)
	}
	var legend [][2]string
	for _, r := range f.Rules {
		legend = append(legend, [2]string{ruleName(&r), ruleText(&r)})
		if fields := r.MayLack(); len(fields) > 0 {
			legend = append(legend, [2]string{"", fmt.Sprintf("requests without %s %v", list(fields, " or "), r.Missing)})
		}
		legend = append(legend, [2]string{"", capacityText(&r)}, [2]string{"", boundsText(&r)})
	}
	printLegend(out, legend)
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
			words = append(words, fmt.Sprintf("%s (requests without %s)", r.Name, list(r.MayLack(), " or ")))
		}
	}
	if len(words) == 1 {
		return "rule " + words[0] + " limits"
	}
	return "rules " + list(words, ", ") + " limit"
}

// ruleName returns the name of a rule in tables.
func ruleName(r *config.Rule) string {
	if r.Shadow {
		return r.Name + " (shadow)"
	}
	return r.Name
}

// ruleText describes a rule, without its name.
func ruleText(r *config.Rule) string {
	text := fmt.Sprintf("%v by %s", r.Policy, r.ByString())
	if len(r.By) == 0 {
		text = fmt.Sprintf("%v for all requests together", r.Policy)
	}
	switch {
	case r.Cost.Bytes:
		text += ", a unit for each byte of the body"
	case r.Cost.Units != 1:
		text += fmt.Sprintf(", %d units for each request", r.Cost.Units)
	}
	var only []string
	if len(r.Methods) > 0 {
		only = append(only, list(methods(r), " and "))
	}
	if len(r.Paths) > 0 {
		only = append(only, list(r.Paths, " and "))
	}
	if len(only) > 0 {
		text += ", only " + strings.Join(only, " of ")
	}
	return text
}

// methods returns the methods that the rule applies to.
func methods(r *config.Rule) []string {
	get := slices.Index(r.Methods, http.MethodGet)
	if get < 0 || slices.Contains(r.Methods, http.MethodHead) {
		return r.Methods
	}
	return slices.Insert(slices.Clone(r.Methods), get+1, http.MethodHead)
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
		plural(config.Capacity(r.Policy), unit), list(limits(r.Policy), " and "))
}

// limits returns the limit of a policy, or of each part of a stack.
func limits(p algo.Policy) (all []algo.Limit) {
	for _, part := range replay.Parts(p) {
		all = append(all, part.Limit())
	}
	return all
}

// usualIntervals are the intervals for which check prints the bounds of each rule.
var usualIntervals = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}

// boundsText describes the most that a rule can admit for one key in any of the usual intervals
// and in any period of its own limits. It is in requests, or in bytes for cost: bytes.
func boundsText(r *config.Rule) string {
	unit := "request"
	if r.Cost.Bytes {
		unit = "byte"
	}
	intervals := slices.Collect(maps.Keys(usualIntervals))
	for _, limit := range limits(r.Policy) {
		intervals = append(intervals, limit.Period)
	}
	slices.Sort(intervals)
	var all []string
	for i, interval := range slices.Compact(intervals) {
		bound := requestBound(r, interval)
		most := boundText(bound)
		if i == 0 && bound != math.MaxInt64 {
			most = plural(bound, unit)
		}
		all = append(all, most+" in any "+intervalText(interval))
	}
	return "at most " + strings.Join(all, ", ")
}

// texts returns the text of each value.
func texts[T any](values []T) []string {
	all := []string{}
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

func list[T any](values []T, between string) string { return strings.Join(texts(values), between) }
