package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
)

// defaultPolicies limit the same rate by each of the four algorithms.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`

func replayCommand(s streams) *cobra.Command {
	var p replayRun
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

// replayRun is the command line of sluice replay.
type replayRun struct {
	logFlags
	reportFlags
	check bool

	keyer    *accesslog.Keyer
	policies []costed.Policy
	file     *config.File // nil: policies are replayed
	sources  []source
}

func (p *replayRun) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringArrayVarP(&p.specs, "policy", "p", nil, "rate limiting `POLICY`; repeat the flag to compare several")
	flags.StringVar(&p.config, "config", "", "use the rules of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.out, "out", "", "also draw a chart into this `FILE`, .svg or .png")
	flags.BoolVar(&p.json, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.top, "top", 10, "how many of the most denied keys to report")
	flags.BoolVar(&p.check, "check", false, "run traces and compare the results with those written after ->")
	p.logFlags.define(flags, "the key of a request")
	checkValues(flags)
}

func (p *replayRun) run(ctx context.Context, args []string, s streams) error {
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
	}
	noteSample(args, s)
	return p.runLogs(ctx, s)
}

// parse parses the flags before any log or trace is read.
func (p *replayRun) parse(ctx context.Context) (err error) {
	if err := p.reportFlags.validate(p.flags); err != nil {
		return err
	}
	if p.config != "" {
		p.file, err = p.readRules(ctx)
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
		policy, err := costed.Parse(spec)
		if err != nil {
			return policyError(err)
		}
		p.policies = append(p.policies, policy)
	}
	return nil
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
func (p *replayRun) runLogs(ctx context.Context, s streams) error {
	if p.out != "" {
		if err := checkPicture(p.out, p.sources, s); err != nil {
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
	return p.print(s.out, report)
}

func (p *replayRun) subject() (subject, error) {
	if p.file != nil {
		return newRuleSubject(p.config, p.file, p.keyField)
	}
	return &policySubject{keyed{keyer: p.keyer}, replay.New(p.policies...), p.policies}, nil
}

func (p *replayRun) replay(ctx context.Context, what subject, terminal io.Writer) (report, error) {
	read, named := what.fields()
	summary, err := p.read(ctx, p.sources, read, named, terminal, func(e *accesslog.Entry) error { return what.add(ctx, e) })
	if err != nil {
		return report{}, err
	}
	return what.report(p.top, summary), nil
}
