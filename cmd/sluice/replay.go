package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/internal/replay"
)

// defaultPolicies are four ways to promise the same rate.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

func replayCommand(s streams) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:     "replay [FILE...]",
		Short:   "Run access logs through policies, side by side",
		Long:    fmt.Sprintf(replayHelp, strings.Join(defaultPolicies, "\n  ")),
		Example: replayExamples,
	}
	f.define(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return runReplay(c.Context(), f, args, s)
	}
	return c
}

// plan is a command line that was understood.
type plan struct {
	replayFlags
	keyer    *accesslog.Keyer
	policies []algo.Policy // none: the defaults, or those of the trace
	sources  []source
}

func runReplay(ctx context.Context, f replayFlags, args []string, s streams) error {
	p, err := f.plan()
	if err != nil {
		return err
	}
	p.sources, err = await(ctx, func() ([]source, error) { return openSources(args, s.in) })
	if err != nil {
		return err
	}
	if traces := p.traces(); traces > 0 {
		return p.runTraces(ctx, traces, s)
	}
	if len(args) == 0 && offered(s.in) {
		fmt.Fprintln(s.err, "sluice: this is the bundled sample log; for standard input give -")
	}
	return p.runLogs(ctx, s)
}

// plan understands the flags, before anybody is asked for input.
func (f *replayFlags) plan() (*plan, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	keyer, err := f.parseKeyer()
	if err != nil {
		return nil, err
	}
	policies, err := parsePolicies(f.policies)
	return &plan{replayFlags: *f, keyer: keyer, policies: policies}, err
}

func parsePolicies(specs []string) ([]algo.Policy, error) {
	var policies []algo.Policy
	for _, spec := range specs {
		p, err := compose.ParsePolicy(spec)
		if err != nil {
			return nil, policyError(err)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// policyError shows the word at fault, if the spec can be shown on a line.
func policyError(err error) error {
	var bad *compose.SpecError
	if !errors.As(err, &bad) || len(bad.Spec) > 200 || strings.ContainsFunc(bad.Spec, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return usagef("--policy: %s", inWords(err))
	}
	return usagef("--policy: %s\n  %s", bad.Problem, strings.ReplaceAll(bad.Pointer(), "\n", "\n  "))
}

func (p *plan) runLogs(ctx context.Context, s streams) error {
	if err := p.prepare(); err != nil {
		return err
	}
	log := accesslog.NewReader(ctx, inputs(p.sources), accesslog.Options{
		Reorder:   time.Duration(p.reorder),
		TimeField: p.timeField,
		KeyField:  p.keyField,
		Fields:    p.keyer.Fields(),
	})
	defer log.Close()
	bar := newProgress(s.err, p.sources)
	result, err := p.replay(log, bar)
	bar.done()
	if err != nil {
		return err
	}
	if p.out != "" {
		if err := drawPicture(p.out, result); err != nil {
			return err
		}
	}
	if p.json {
		return printJSON(s.out, result)
	}
	return printTables(s.out, result)
}

// prepare does all that can fail before the log is read.
func (p *plan) prepare() (err error) {
	if err := p.forLogs(p.sources[0].name); err != nil {
		return err
	}
	if len(p.policies) == 0 {
		p.policies, err = parsePolicies(defaultPolicies)
	}
	if p.out != "" && err == nil {
		err = tryToWrite(p.out)
	}
	return err
}

// result is a replay that came to its end.
type result struct {
	replay.Report
	accesslog.Stats
	by         string
	absent     accesslog.Fields // those of by that no request has
	name       string           // of the log
	start, end time.Time
}

func (p *plan) replay(log *accesslog.Reader, bar *progress) (*result, error) {
	r := replay.New(p.policies...)
	res := &result{by: p.keyer.String(), name: describe(p.sources), absent: p.keyer.Fields()}
	var key []byte
	for log.Next() {
		e := log.Entry()
		if res.start.IsZero() {
			res.start = e.Time
		}
		res.end = e.Time
		if res.absent != 0 {
			res.absent &^= p.keyer.Present(e)
		}
		key = p.keyer.AppendKey(key[:0], e)
		if err := r.Add(e.Time, key); err != nil {
			return nil, err
		}
		bar.at(log)
	}
	if err := log.Err(); err != nil {
		return nil, unread(err)
	}
	res.Report, res.Stats = r.Report(int(p.top)), log.Stats()
	return res, p.doubt(res)
}
