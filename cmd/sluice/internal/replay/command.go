// Package replay is the command sluice replay. It replays access logs through policies, or through the rules of a file,
// and runs traces.
package replay

import (
	"cmp"
	"context"
	_ "embed"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/picture"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/internal/costed"
)

//go:embed help.txt
var help string

// defaultPolicies limit the same rate by each of the four algorithms.
var defaultPolicies = []string{"gcra 30/m burst=10", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m"}

const replayExamples = `  sluice replay
  sluice replay -p "gcra 10/m burst=5" -p "fixedwindow 10/m" access.log access.log.1.gz
  zcat *.gz | sluice replay --by path --json -
  sluice replay --config limits.yaml --out limits.svg access.log
  sluice replay --check burst_at_edge.trace`

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	var p replayRun
	c := &cobra.Command{
		Use:     "replay [FILE...]",
		Short:   "Replay access logs through policies, side by side",
		Long:    help,
		Example: replayExamples,
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c.Context(), args, s) },
	}
	p.Define(c.Flags())
	return c
}

// replayRun is the command line of sluice replay.
type replayRun struct {
	logs.Input
	report.Output
	check bool

	keyer    *accesslog.Keyer
	policies []costed.Policy
	file     *config.File // nil: policies are replayed
	sources  []logs.Source
}

func (p *replayRun) Define(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&p.Specs, "policy", "p", nil, "rate limiting `POLICY`; repeat the flag to compare several")
	flags.StringVar(&p.Config, "config", "", "use the rules of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.Out, "out", "", "also draw a chart into this `FILE`, .svg or .png")
	flags.BoolVar(&p.JSON, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.Top, "top", 10, "how many of the most denied keys to report")
	flags.BoolVar(&p.check, "check", false, "run traces and compare the results with those written after ->")
	p.Input.Define(flags, "the key of a request")
}

func (p *replayRun) run(ctx context.Context, args []string, s cli.Streams) error {
	err := p.parse(ctx)
	if err != nil {
		return err
	}
	p.sources, err = cli.Await(ctx, func() ([]logs.Source, error) { return logs.Open(args, s.In) })
	if err != nil {
		return err
	}
	var trace, log string // the names of the first of each
	for _, s := range p.sources {
		if s.Trace {
			trace = cmp.Or(trace, s.Name)
		} else {
			log = cmp.Or(log, s.Name)
		}
	}
	switch {
	case trace != "" && log != "":
		return cli.Usagef("%s is a trace and %s is a log; replay them in separate runs", trace, log)
	case trace != "":
		return p.runTraces(ctx, trace, s)
	case p.check:
		return cli.Usagef("--check works with traces only, and %s is not a trace; leave --check out", log)
	}
	logs.NoteSample(args, s)
	return p.runLogs(ctx, s)
}

// parse parses the flags before any log or trace is read.
func (p *replayRun) parse(ctx context.Context) (err error) {
	if err := p.Output.Validate(p.Flags); err != nil {
		return err
	}
	if p.Config != "" {
		p.file, err = rules.StatAndRead(ctx, p.Config)
		return err
	}
	if p.keyer, err = p.ParseKeyer(); err != nil {
		return err
	}
	specs := p.Specs
	if len(specs) == 0 {
		specs = defaultPolicies
	}
	for _, spec := range specs {
		policy, err := costed.Parse(spec)
		if err != nil {
			return cli.PolicyError(err)
		}
		p.policies = append(p.policies, policy)
	}
	return nil
}

// runLogs makes all checks that are possible before it reads the logs.
func (p *replayRun) runLogs(ctx context.Context, s cli.Streams) error {
	if err := picture.Check(p.Out, p.sources, s); err != nil {
		return err
	}
	for _, spec := range p.Specs {
		if _, err := costed.ParseRate(spec, rules.NoEnd); err != nil { // a trace can have it
			return cli.PolicyError(err)
		}
	}
	what, err := p.subject()
	if err != nil {
		return err
	}
	read, named := what.Fields()
	log, err := p.Read(ctx, p.sources, read, named, s.Err, func(e *accesslog.Entry) error { return what.Add(ctx, e) })
	if err != nil {
		return err
	}
	return p.Print(s.Out, what.report(p.Top, log))
}

func (p *replayRun) subject() (subject, error) {
	if p.file != nil {
		s, err := rules.NewSubject(p.Config, p.file, p.KeyField, (*config.Rule).HoldsUnits)
		return fileReplay{s}, err
	}
	return &policySubject{p.keyer, backtest.New(p.policies...), p.policies}, nil
}

// subject is the policies or the rules of a replay.
type subject interface {
	// Fields returns the fields of an entry that it reads, and those that keys and rules name.
	Fields() (read, named accesslog.Fields)
	Add(ctx context.Context, e *accesslog.Entry) error
	report(top int, log *logs.Summary) report.Report
}
