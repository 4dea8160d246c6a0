package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
)

// defaultPolicies limit the same rate by each of the four algorithms.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`

func replayCommand(s streams) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:     "replay [FILE...]",
		Short:   "Replay access logs through policies, side by side",
		Long:    replayHelp,
		Example: replayExamples,
	}
	f.define(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return runReplay(c.Context(), f, args, s)
	}
	return c
}

// plan is a parsed command line.
type plan struct {
	replayFlags
	keyer    *accesslog.Keyer
	policies []algo.Policy // none: the default policies, or those of the trace
	file     *config.File  // nil: policies are replayed
	sources  []source
}

func runReplay(ctx context.Context, f replayFlags, args []string, s streams) error {
	p, err := await(ctx, f.plan) // it reads a rule file, which may be a pipe
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
	if len(args) == 0 && stdinHasData(s.in) {
		fmt.Fprintln(s.err, "sluice: reading the bundled sample log; to read standard input, pass -")
	}
	return p.runLogs(ctx, s)
}

// plan parses the flags before any input is read.
func (f *replayFlags) plan() (*plan, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if f.config != "" {
		file, err := f.readConfig()
		return &plan{replayFlags: *f, file: file}, err
	}
	keyer, err := f.parseKeyer()
	if err != nil {
		return nil, err
	}
	policies, err := parsePolicies(f.policies)
	return &plan{replayFlags: *f, keyer: keyer, policies: policies}, err
}

func (f *replayFlags) readConfig() (*config.File, error) {
	if err := statConfig(f.config); err != nil {
		return nil, err
	}
	return config.Read(f.config)
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

// policyError marks the wrong word if the spec is short and printable.
func policyError(err error) error {
	var bad *compose.SpecError
	if !errors.As(err, &bad) || len(bad.Spec) > 200 || strings.ContainsFunc(bad.Spec, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return usagef("--policy: %s", withoutPackage(err))
	}
	return usagef("--policy: %s\n  %s", bad.Problem, strings.ReplaceAll(bad.Caret(), "\n", "\n  "))
}

func (p *plan) runLogs(ctx context.Context, s streams) error {
	if err := p.prepare(); err != nil {
		return err
	}
	bar := newProgress(s.err, p.sources)
	report, err := p.replay(ctx, bar)
	bar.done()
	if err != nil {
		return err
	}
	err = p.print(report, s.out)
	if p.out == "" {
		return err
	}
	return cmp.Or(err, drawPicture(p.out, report.picture())) // if one output fails, the other may succeed
}

func (p *plan) print(r report, w io.Writer) error {
	if p.json {
		return printJSON(w, r.json())
	}
	return printTables(w, r)
}

// prepare makes all checks that are possible before the log is read.
func (p *plan) prepare() (err error) {
	if err := p.checkLogFlags(p.sources[0].name); err != nil {
		return err
	}
	if p.out == "" {
		return nil
	}
	if out, err := os.Stat(p.out); err == nil {
		for _, s := range p.sources {
			if s.info != nil && os.SameFile(s.info, out) {
				return usagef("--out %s is the log itself, and the chart would overwrite it; name another file", p.out)
			}
		}
	}
	return tryToWrite(p.out)
}

// subject is the policies or the rules of a replay.
type subject interface {
	fields() accesslog.Fields // of an entry that it reads
	named() accesslog.Fields  // the fields that keys and rules name
	add(ctx context.Context, e *accesslog.Entry) error
	report(top int, from logSummary) report
}

// report is the result of a replay.
type report interface {
	tables(w io.Writer)
	json() any
	picture() *picture
}

// logSummary describes a log that was read to its end.
type logSummary struct {
	accesslog.Stats
	name       string
	keyField   string                     // the value of --key-field
	needs      accesslog.Fields           // the fields that keys and rules need
	missing    map[accesslog.Fields]int64 // by field, the number of requests without it
	start, end time.Time
	latest     place // the first line with the latest time so far
	behind     int64 // the number of late lines since latest
	ahead      place // the position that made the most lines late
	most       int64 // the number of these lines
}

// place is the position of a line, with its time.
type place struct {
	file string
	line int64
	at   time.Time
}

func (p *plan) replay(ctx context.Context, bar *progress) (report, error) {
	what, err := p.subject()
	if err != nil {
		return nil, err
	}
	log := accesslog.NewReader(ctx, inputs(p.sources), accesslog.Options{
		Reorder:   time.Duration(p.reorder),
		TimeField: p.timeField,
		KeyField:  p.keyField,
		Fields:    cmp.Or(what.fields(), accesslog.Status), // for the reader, no fields means all fields
	})
	defer log.Close()
	from := newLogSummary(describe(p.sources), p.keyField, what.named())
	for log.Next() {
		e := log.Entry()
		from.pass(e)
		if err := what.add(ctx, e); err != nil {
			return nil, err
		}
		bar.at(log)
	}
	if err := log.Err(); err != nil {
		return nil, p.withRemedy(err)
	}
	from.Stats = log.Stats()
	return what.report(int(p.top), from), p.checkLog(&from)
}

func (p *logSummary) pass(e *accesslog.Entry) {
	if p.start.IsZero() {
		p.start = e.Time
	}
	p.end = e.Time
	p.trackLate(e)
	if missing := p.needs &^ e.Present(); missing != 0 {
		p.countMissing(missing)
	}
}

// trackLate finds the position that made the most lines late.
func (p *logSummary) trackLate(e *accesslog.Entry) {
	switch {
	case e.Late:
		if p.behind++; p.behind > p.most {
			p.ahead, p.most = p.latest, p.behind
		}
	case p.latest.file == "" || !e.Time.Equal(p.latest.at):
		p.latest, p.behind = place{e.File, e.Line, e.Time}, 0
	}
}

func (p *plan) subject() (subject, error) {
	if p.file != nil {
		return newRuleSubject(p.config, p.file, p.keyField)
	}
	policies := p.policies
	if len(policies) == 0 {
		var err error
		if policies, err = parsePolicies(defaultPolicies); err != nil {
			return nil, err
		}
	}
	return &policySubject{replay.New(policies...), p.keyer, nil}, nil
}

// policySubject replays policies side by side, all by the same key.
type policySubject struct {
	replay *replay.Replay
	keyer  *accesslog.Keyer
	key    []byte
}

func (s *policySubject) fields() accesslog.Fields { return s.keyer.Fields() }
func (s *policySubject) named() accesslog.Fields  { return s.keyer.Named() }

func (s *policySubject) add(_ context.Context, e *accesslog.Entry) error {
	s.key = s.keyer.AppendKey(s.key[:0], e)
	return s.replay.Add(e.Time, s.key)
}

func (s *policySubject) report(top int, from logSummary) report {
	return &result{s.replay.Report(top), from, s.keyer.String()}
}

// result is the report of policies.
type result struct {
	replay.Report
	logSummary
	by string
}
