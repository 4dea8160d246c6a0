package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

// defaultPolicies limit the same rate by each of the four algorithms.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`

func replayCommand(s streams) *cobra.Command {
	var p plan
	c := &cobra.Command{
		Use:     "replay [FILE...]",
		Short:   "Replay access logs through policies, side by side",
		Long:    replayHelp,
		Example: replayExamples,
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c.Context(), args, s) },
	}
	p.define(c.Flags())
	return c
}

// plan is the command line of sluice replay.
type plan struct {
	specs                                []string // of --policy
	config, by, out, timeField, keyField string
	json, check                          bool
	top                                  int
	reorder                              time.Duration
	flags                                *pflag.FlagSet

	keyer    *accesslog.Keyer
	policies []algo.Policy
	file     *config.File // nil: policies are replayed
	sources  []source
}

func (p *plan) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringArrayVarP(&p.specs, "policy", "p", nil, "rate limiting `POLICY`; repeat the flag to compare several")
	flags.StringVar(&p.config, "config", "", "use the rules of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.by, "by", "ip", "the key of a request, `FIELDS`: ip, user, method, path, host, status, key, or several joined by +; everything: all requests share one limit")
	flags.StringVar(&p.out, "out", "", "also draw a chart into this `FILE`, .svg or .png")
	flags.BoolVar(&p.json, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.top, "top", 10, "how many of the most denied keys to report")
	flags.DurationVar(&p.reorder, "reorder", time.Minute, "sort lines that are out of order by up to this duration")
	flags.StringVar(&p.timeField, "time-field", "", "the `MEMBER` of JSON lines that holds the time, such as request.at")
	flags.StringVar(&p.keyField, "key-field", "", "the `MEMBER` of JSON lines that holds the key (sets --by key)")
	flags.BoolVar(&p.check, "check", false, "run traces and compare the results with those written after ->")
	p.flags = flags
	checkValues(flags)
}

func (p *plan) run(ctx context.Context, args []string, s streams) error {
	err := p.parse(ctx)
	if err != nil {
		return err
	}
	p.sources, err = await(ctx, func() ([]source, error) { return openSources(args, s.in) })
	if err != nil {
		return err
	}
	var trace, log string // the names of the first of each
	for _, s := range p.sources {
		if s.trace {
			trace = cmp.Or(trace, s.name)
		} else {
			log = cmp.Or(log, s.name)
		}
	}
	switch {
	case trace != "" && log != "":
		return usagef("%s is a trace and %s is a log; replay them in separate runs", trace, log)
	case trace != "":
		return p.runTraces(ctx, trace, s)
	case p.check:
		return usagef("--check works with traces only, and %s is not a trace; leave --check out", log)
	case len(args) == 0 && stdinHasData(s.in):
		fmt.Fprintln(s.err, "sluice: reading the bundled sample log; to read standard input, pass -")
	}
	return p.runLogs(ctx, s)
}

// parse parses the flags before any log or trace is read.
func (p *plan) parse(ctx context.Context) (err error) {
	if err := p.checkFlags(); err != nil {
		return err
	}
	if p.config != "" {
		if err := statConfig(p.config); err != nil {
			return err
		}
		p.file, err = await(ctx, func() (*config.File, error) { return config.Read(p.config) }) // it may be a pipe
		return err
	}
	if p.keyer, err = p.parseKeyer(); err != nil {
		return err
	}
	specs := p.specs
	if len(specs) == 0 {
		specs = defaultPolicies
	}
	for _, spec := range specs {
		policy, err := compose.ParsePolicy(spec)
		if err != nil {
			return policyError(err)
		}
		p.policies = append(p.policies, policy)
	}
	return nil
}

// checkFlags checks the flags as far as this is possible without the input.
func (p *plan) checkFlags() error {
	if err := refuseEmpty(p.flags, "give it a value or leave it out", "config", "out", "time-field", "key-field"); err != nil {
		return err
	}
	ext := strings.ToLower(filepath.Ext(p.out))
	switch {
	case p.out != "" && ext != ".svg" && ext != ".png":
		return usagef("--out %q: want a name that ends in .svg or .png", p.out)
	case p.config != "" && len(p.specs) > 0:
		return usagef("-p and --config exclude each other; leave one out, or write the policy into a rule of %s", p.config)
	case p.config != "" && p.flags.Changed("by"):
		return usagef("--by and --config exclude each other; leave --by out, or set by in the rules of %s", p.config)
	}
	return nil
}

// parseKeyer parses --by. --key-field alone means --by key.
func (p *plan) parseKeyer() (*accesslog.Keyer, error) {
	if p.keyField != "" && !p.flags.Changed("by") {
		p.by = "key"
	}
	for word := range strings.SplitSeq(p.by, "+") {
		if kind, _, named := strings.Cut(strings.TrimSpace(word), ":"); named && (kind == "header" || kind == "cookie") {
			return nil, usagef("--by %s: replay does not look for a %s in logs; name the member of JSON lines that holds it with --key-field, and write key in --by", errtext.Quote(p.by), kind)
		}
	}
	k, err := accesslog.ParseKeyer(p.by)
	if err != nil {
		return nil, usagef("--by: %s", withoutPackage(err))
	}
	byKey := k.Named()&accesslog.Key != 0
	switch {
	case byKey && p.keyField == "":
		return nil, usagef("--by %s needs --key-field, the member of JSON lines that holds the key", p.by)
	case !byKey && p.keyField != "":
		return nil, usagef("--key-field has no effect with --by %s; leave one out, or add key to --by, such as ip+key", p.by)
	}
	return k, nil
}

// policyError marks the wrong word if the spec is short and printable.
func policyError(err error) error {
	var bad *compose.SpecError
	if !errors.As(err, &bad) || len(bad.Spec) > 200 || strings.ContainsFunc(bad.Spec, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return usagef("--policy: %s", withoutPackage(err))
	}
	return usagef("--policy: %s\n  %s", bad.Problem, strings.ReplaceAll(bad.Caret(), "\n", "\n  "))
}

// runLogs makes all checks that are possible before it reads the logs.
func (p *plan) runLogs(ctx context.Context, s streams) error {
	if p.out != "" {
		if err := checkPicture(p.out, p.sources); err != nil {
			return err
		}
	}
	what, err := p.subject()
	if err != nil {
		return err
	}
	report, err := p.replay(ctx, what, s.err)
	if err != nil {
		return err
	}
	if p.json {
		err = printJSON(s.out, report.json)
	} else {
		_, err = io.WriteString(s.out, report.tables)
	}
	if p.out == "" {
		return err
	}
	return cmp.Or(err, report.picture.draw(p.out)) // if one output fails, the other may succeed
}

func (p *plan) subject() (subject, error) {
	if p.file != nil {
		return newRuleSubject(p.config, p.file, p.keyField)
	}
	return &policySubject{replay: replay.New(p.policies...), keyer: p.keyer}, nil
}

func (p *plan) replay(ctx context.Context, what subject, terminal io.Writer) (report, error) {
	read, named := what.fields()
	name := p.sources[0].name
	if more := len(p.sources) - 1; more > 0 {
		name = fmt.Sprintf("%s and %d more", name, more)
	}
	var inputs []accesslog.Input
	for _, s := range p.sources {
		inputs = append(inputs, s.input)
	}
	log := accesslog.NewReader(ctx, inputs, accesslog.Options{
		Reorder:   p.reorder,
		TimeField: p.timeField,
		KeyField:  p.keyField,
		Fields:    cmp.Or(read, accesslog.Status), // for the reader, no fields means all fields
	})
	defer log.Close()
	bar := newProgress(terminal, p.sources)
	defer func() { _ = bar.Finish() }()
	summary := &logSummary{name: name, keyField: p.keyField, named: named, missing: make(map[accesslog.Fields]int64)}
	for n := 1; log.Next(); n++ {
		e := log.Entry()
		summary.add(e)
		if err := what.add(ctx, e); err != nil {
			return report{}, err
		}
		if n%4096 == 0 {
			_ = bar.Set64(log.BytesRead())
		}
	}
	if err := log.Err(); err != nil {
		return report{}, p.withRemedy(err)
	}
	summary.Stats = log.Stats()
	if err := p.checkLog(summary); err != nil {
		return report{}, err
	}
	return what.report(p.top, summary), nil
}
