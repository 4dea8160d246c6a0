package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/internal/replay"
	"github.com/sluice-go/sluice/internal/sample"
)

const replayHelp = `Replay runs the requests of access logs through rate limiting policies, side by
side, and tells whom each of them would have hit. Nothing is limited; the same
code decides that decides in a limiter.

Logs may be in the common or combined format, with a virtual host in front, or
JSON lines, plain or gzip, found by themselves; several are merged by time; - is
standard input. Without a FILE the bundled sample log is replayed.

A policy is ALGORITHM LIMIT [option=value ...]:

  gcra          100/m  burst=N
  tokenbucket   100/m  burst=N  refill=continuous|interval
  fixedwindow   100/m  align=first|clock  offset=DURATION
  movingwindow  100/m  slots=N  trailing=weighted|whole
  all(gcra 10/s; gcra 100/m)    only what both allow

A FILE that is a trace (see --check) is run as the trace says, one column of
answers for each policy.

--json prints one object. Its members stay; others may join them. Durations are
written like "1m0s".

  {"lines":N, "skipped":N, "reordered":N, "late":N, "disagreements":N,
   "policies":[{"policy":SPEC, "requests":N, "allowed":N, "denied":N,
                "keys":N, "keys_denied":N,
                "worst":{"interval":DURATION, "admitted":UNITS, "bound":UNITS},
                "longest_wait":DURATION, "never":N,
                "top_denied":[{"key":KEY, "denied":N}]}]}

  worst is the most that one key was admitted in any one period of the limit,
  and the most it could have been; never counts denials of a cost above the
  capacity, for which there is no wait.

Exit status: 0; 1 if the run failed or --check found a difference; 2 for a
mistake on the command line.`

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --check burst_at_edge.trace`

// defaultPolicies are four ways to promise the same rate.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

// replayFlags are the flags as given.
type replayFlags struct {
	policies  []string
	by        string
	out       string
	json      bool
	check     bool
	top       int
	reorder   time.Duration
	timeField string
	keyField  string
}

func replayCommand(s streams) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:     "replay [FILE...]",
		Short:   "Run access logs through policies, side by side",
		Long:    replayHelp,
		Example: replayExamples,
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVarP(&f.policies, "policy", "p", nil, "a policy to replay; repeat it to compare several")
	flags.StringVar(&f.by, "by", "ip", "what is limited: ip, user, method, path, host, status, key, or several joined by +")
	flags.StringVar(&f.out, "out", "", "draw the picture into this file, .svg or .png")
	flags.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	flags.IntVar(&f.top, "top", 10, "how many of the keys denied most to tell")
	flags.DurationVar(&f.reorder, "reorder", time.Minute, "put lines right that are out of order by up to this")
	flags.StringVar(&f.timeField, "time-field", "", "the member of JSON lines that has the time")
	flags.StringVar(&f.keyField, "key-field", "", "the member of JSON lines to limit by (sets --by key)")
	flags.BoolVar(&f.check, "check", false, "compare the answers of traces with those right of ->")
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.keyField != "" && !flags.Changed("by") {
			f.by = "key"
		}
		return runReplay(c.Context(), f, args, s)
	}
	return c
}

// plan is a command line that was understood.
type plan struct {
	replayFlags
	keyer    *accesslog.Keyer
	policies []algo.Policy // as given
	defaults []algo.Policy // for logs, when none are given
	sources  []source
}

func runReplay(ctx context.Context, f replayFlags, args []string, s streams) error {
	p, err := f.plan(args, s.in)
	if err != nil {
		return err
	}
	if traces := p.traces(); traces > 0 {
		return p.runTraces(traces, s)
	}
	if p.check {
		return usagef("--check takes traces, and %s is none", p.sources[0].name)
	}
	return p.runLogs(ctx, s)
}

func (f replayFlags) plan(args []string, stdin io.Reader) (*plan, error) {
	p := &plan{replayFlags: f}
	if err := f.validate(); err != nil {
		return nil, err
	}
	var err error
	if p.keyer, err = accesslog.ParseKeyer(f.by); err != nil {
		return nil, usagef("--by: %v", err)
	}
	if p.policies, err = parsePolicies(f.policies); err != nil {
		return nil, err
	}
	if p.defaults, err = parsePolicies(defaultPolicies); err != nil {
		return nil, err
	}
	p.sources, err = openSources(args, stdin)
	return p, err
}

func (f replayFlags) validate() error {
	switch ext := filepath.Ext(f.out); {
	case f.out != "" && ext != ".svg" && ext != ".png":
		return usagef("--out %q: want a name that ends in .svg or .png", f.out)
	case f.top < 0:
		return usagef("--top must be at least 0, got %d", f.top)
	case f.reorder < 0:
		return usagef("--reorder must be at least 0s, got %v", f.reorder)
	case f.by == "key" && f.keyField == "":
		return usagef("--by key needs --key-field, the member of JSON lines that has it")
	}
	return nil
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

// policyError shows the word at fault.
func policyError(err error) error {
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		return usagef("--policy: %v\n%s", err, bad.Pointer())
	}
	return usagef("--policy: %v", err)
}

func (p *plan) runLogs(ctx context.Context, s streams) error {
	if len(p.policies) == 0 {
		p.policies = p.defaults
	}
	log := accesslog.NewReader(ctx, inputs(p.sources), accesslog.Options{
		Reorder:   p.reorder,
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

// result is a replay that came to its end.
type result struct {
	replay.Report
	accesslog.Stats
	by         string
	name       string // of the log
	start, end time.Time
}

func (p *plan) replay(log *accesslog.Reader, bar *progress) (*result, error) {
	r := replay.New(p.policies...)
	res := &result{by: p.keyer.String(), name: describe(p.sources)}
	var key []byte
	for log.Next() {
		e := log.Entry()
		if res.start.IsZero() {
			res.start = e.Time
		}
		res.end = e.Time
		key = p.keyer.AppendKey(key[:0], e)
		if err := r.Add(e.Time, key); err != nil {
			return nil, err
		}
		bar.at(log)
	}
	if err := log.Err(); err != nil {
		return nil, err
	}
	res.Report, res.Stats = r.Report(p.top), log.Stats()
	if res.Requests == 0 {
		return nil, fmt.Errorf("%s: no requests to replay: it has %d lines", res.name, res.Lines)
	}
	return res, nil
}

// A source is one FILE of the command line.
type source struct {
	name  string
	input accesslog.Input
	size  int64 // in bytes; -1: not known
	trace bool
}

const sampleName = "the bundled sample log"

func openSources(args []string, stdin io.Reader) ([]source, error) {
	if len(args) == 0 {
		return []source{{name: sampleName, input: accesslog.FromReader(sampleName, sample.Open()), size: -1}}, nil
	}
	var sources []source
	stdins := 0
	for _, arg := range args {
		var s source
		var err error
		if arg == "-" {
			stdins++
			s, err = openStdin(stdin)
		} else {
			s, err = openFile(arg)
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if stdins > 1 {
		return nil, usagef("standard input (-) can be read only once")
	}
	return sources, nil
}

func openStdin(stdin io.Reader) (source, error) {
	const name = "standard input"
	first, whole := accesslog.Peek(stdin, peekSize)
	return source{name: name, input: accesslog.FromReader(name, whole), size: -1, trace: looksLikeTrace(first)}, nil
}

func openFile(path string) (source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return source{}, usagef("%w; name log files that are there, - for standard input, or none for the sample", err)
	}
	if info.IsDir() {
		return source{}, usagef("%s is a directory; name the files in it, for instance %s", path, filepath.Join(path, "*.log"))
	}
	s := source{name: path, input: accesslog.FromFile(path), size: -1, trace: filepath.Ext(path) == ".trace"}
	if !info.Mode().IsRegular() { // what is read of a pipe is gone
		return s, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return source{}, usagef("%w", err)
	}
	defer f.Close()
	first, _ := accesslog.Peek(f, peekSize)
	s.size, s.trace = info.Size(), s.trace || looksLikeTrace(first)
	return s, nil
}

func inputs(sources []source) []accesslog.Input {
	var in []accesslog.Input
	for _, s := range sources {
		in = append(in, s.input)
	}
	return in
}

func describe(sources []source) string {
	if len(sources) == 1 {
		return sources[0].name
	}
	return fmt.Sprintf("%s and %d more", sources[0].name, len(sources)-1)
}
