package suggest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/picture"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/internal/errtext"
)

//go:embed help.txt
var help string

// suggestMemory is the most memory that the requests of a log may take.
const suggestMemory = 1 << 30

const suggestExamples = `  sluice suggest
  sluice suggest --untouched 99.5% --of clients access.log access.log.1.gz
  sluice suggest -p "gcra ?/m burst=20" -p "gcra 100/m burst=?" access.log
  sluice suggest --per 1h --out curve.svg access.log
  sluice suggest --config limits.yaml access.log`

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	p := suggestRun{memory: suggestMemory}
	c := &cobra.Command{
		Use:     "suggest [LOG...]",
		Short:   "Find the tightest limits that leave most of a log's requests untouched",
		Long:    help,
		Example: suggestExamples,
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c.Context(), args, s) },
	}
	p.Define(c.Flags())
	return c
}

// suggestRun is the command line of sluice suggest.
type suggestRun struct {
	logs.Input
	report.Output
	untouched, of string
	per           time.Duration
	memory        int64 // the most bytes that the requests may take

	goal      Goal
	keyer     *accesslog.Keyer
	templates []Template
	file      *config.File // nil: templates are searched
}

func (p *suggestRun) Define(flags *pflag.FlagSet) {
	flags.StringVar(&p.untouched, "untouched", "99.9%", "the least `SHARE` that must not be denied")
	flags.StringVar(&p.of, "of", "requests", "what --untouched is a share of, `WHAT`: requests or clients")
	flags.StringArrayVarP(&p.Specs, "policy", "p", nil, "find the number in place of the ? in this `POLICY`; repeat the flag for several")
	flags.DurationVar(&p.per, "per", time.Minute, "without --policy: the period of the limits")
	flags.StringVar(&p.Config, "config", "", "find a count for each rule of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.Out, "out", "", "also draw the share denied for each number into this `FILE`, .svg or .png")
	flags.BoolVar(&p.JSON, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.Top, "top", 10, "how many of the most denied clients to report")
	p.Input.Define(flags, "what identifies a client")
}

func (p *suggestRun) run(ctx context.Context, args []string, s cli.Streams) error {
	if err := p.parse(ctx); err != nil {
		return err
	}
	sources, err := p.Open(ctx, "suggest", args, s)
	if err != nil {
		return err
	}
	if err := picture.Check(p.Out, sources, s); err != nil {
		return err
	}
	what, err := p.subject()
	if err != nil {
		return err
	}
	logs.NoteSample(args, s)
	report, err := p.suggest(ctx, what, sources, s.Err)
	if err != nil {
		return err
	}
	return p.Print(s.Out, report)
}

// parse parses the flags before any log is read.
func (p *suggestRun) parse(ctx context.Context) (err error) {
	if err := p.Output.Validate(p.Flags); err != nil {
		return err
	}
	if p.goal.Share, err = ParseShare(p.untouched); err != nil {
		return cli.Usagef("--untouched %w", err)
	}
	p.goal.Of = Unit(p.of)
	switch {
	case p.goal.Of != OfRequests && p.goal.Of != OfClients:
		return cli.Usagef("--of %s is not known; want requests or clients", errtext.Quote(p.of))
	case !algo.Per(1, p.per).IsValid():
		return cli.Usagef("--per %s: want a period from 1us to 26062d in whole microseconds, such as 1m or 1h", readable.Exact(p.per))
	case p.Flags.Changed("per") && len(p.Specs) > 0:
		return cli.Usagef("--per and -p exclude each other; leave --per out, or write the period into the policy, such as gcra ?/h")
	case p.Flags.Changed("per") && p.Config != "":
		return cli.Usagef("--per and --config exclude each other; leave --per out: the rules of %s have their own periods", p.Config)
	case p.Config != "":
		p.file, err = rules.StatAndRead(ctx, p.Config)
		return err
	}
	if p.keyer, err = p.ParseKeyer(); err != nil {
		return err
	}
	for _, spec := range p.templateSpecs() {
		t, err := ParseTemplate(spec)
		if err != nil {
			return cli.PolicyError(err)
		}
		p.templates = append(p.templates, t)
	}
	return nil
}

// templateSpecs returns those of --policy, or else one for each algorithm.
func (p *suggestRun) templateSpecs() []string {
	if len(p.Specs) > 0 {
		return p.Specs
	}
	_, period, _ := strings.Cut(algo.Per(1, p.per).String(), "/")
	var specs []string
	for _, name := range [...]string{"gcra", "tokenbucket", "fixedwindow", "movingwindow"} {
		specs = append(specs, name+" ?/"+period)
	}
	return specs
}

// subject collects the requests of a log, and suggests policies for them.
type subject interface {
	// Fields returns the fields of an entry that it reads, and those that keys and rules name.
	Fields() (read, named accesslog.Fields)
	Add(e *accesslog.Entry) error
	// suggestions returns what to search. No entry is added afterwards.
	suggestions(goal Goal) []*Suggestion
	// report returns the text of the report and the subtitle of the chart. It completes the JSON.
	report(ctx context.Context, r *Report) (text, by string, err error)
}

func (p *suggestRun) subject() (subject, error) {
	memory := Memory(p.memory)
	if p.file != nil {
		return newFileSubject(p.Config, p.file, p.KeyField, &memory)
	}
	return &policySubject{Keyer: p.keyer, log: NewLog(&memory), templates: p.templates}, nil
}

func (p *suggestRun) suggest(ctx context.Context, what subject, sources []logs.Source, terminal io.Writer) (report.Report, error) {
	read, named := what.Fields()
	r := &Report{Untouched: p.untouched, Of: p.goal.Of}
	log, err := p.Read(ctx, sources, read|accesslog.Status, named, terminal, func(e *accesslog.Entry) error {
		if string(e.Status) == "429" {
			r.Limited++
		}
		return what.Add(e)
	})
	switch {
	case errors.Is(err, ErrMemory):
		return report.Report{}, fmt.Errorf("the requests do not fit into %d MiB of memory; name fewer files, or pass a part of the log: head -n 10000000 access.log | sluice suggest -", p.memory>>20)
	case err != nil:
		return report.Report{}, err
	}
	bar := logs.NewBar(terminal, -1, "searching, replays", progressbar.OptionShowCount())
	defer func() { _ = bar.Finish() }()
	r.log, r.top, r.All = log, p.Top, what.suggestions(p.goal)
	if err := Run(ctx, func() { _ = bar.Add(1) }, r.All...); err != nil {
		return report.Report{}, err
	}
	r.Counts, r.Problems = log.ForJSON()
	text, by, err := what.report(ctx, r)
	return report.Report{Tables: text, JSON: r, Chart: curvePicture{r.All, p.goal, fmt.Sprintf("%s, %s, %s", readable.BaseName(log.Name), log.Span(), by)}}, err
}
