package suggest

import (
	"bytes"
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
	flags.SortFlags = false
	flags.StringVar(&p.untouched, "untouched", "99.9%", "the least `SHARE` that must not be denied")
	flags.StringVar(&p.of, "of", "requests", "what --untouched is a share of, `WHAT`: requests or clients")
	flags.StringArrayVarP(&p.Specs, "policy", "p", nil, "find the number in place of the ? in this `POLICY`; repeat the flag for several")
	flags.DurationVar(&p.per, "per", time.Minute, "without --policy: the period of the limits")
	flags.StringVar(&p.Config, "config", "", "find a count for each rule of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.Out, "out", "", "also draw the share denied for each number into this `FILE`, .svg or .png")
	flags.BoolVar(&p.JSON, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.Top, "top", 10, "how many of the most denied clients to report")
	p.Input.Define(flags, "what identifies a client")
	cli.CheckValues(flags)
}

func (p *suggestRun) run(ctx context.Context, args []string, s cli.Streams) error {
	if err := p.parse(ctx); err != nil {
		return err
	}
	sources, err := p.Open(ctx, "suggest", args, s)
	if err != nil {
		return err
	}
	if p.Out != "" {
		if err := picture.Check(p.Out, sources, s); err != nil {
			return err
		}
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
	if p.goal.Of, err = ParseUnit(p.of); err != nil {
		return cli.Usagef("--of %w", err)
	}
	switch {
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

// suggestSubject collects the requests of a log, and makes searches of them.
type suggestSubject interface {
	// Fields returns the fields of an entry that it reads, and those that keys and rules name.
	Fields() (read, named accesslog.Fields)
	Add(e *accesslog.Entry) error
	// searches returns the searches and their names. No entry is added afterwards.
	searches(goal Goal) (searches []Search, names []string)
	// report makes the report from the results of the searches.
	report(ctx context.Context, r *suggestReport) (report.Report, error)
}

func (p *suggestRun) subject() (suggestSubject, error) {
	memory := NewMemory(p.memory)
	if p.file != nil {
		return newSuggestRules(p.Config, p.file, p.KeyField, memory)
	}
	return &suggestPolicies{Keyed: logs.Keyed{Keyer: p.keyer}, log: NewLog(memory), templates: p.templates}, nil
}

func (p *suggestRun) suggest(ctx context.Context, what suggestSubject, sources []logs.Source, terminal io.Writer) (report.Report, error) {
	read, named := what.Fields()
	r := &suggestReport{goal: p.goal, top: p.Top}
	var err error
	r.log, err = p.Read(ctx, sources, read|accesslog.Status, named, terminal, func(e *accesslog.Entry) error {
		if string(e.Status) == "429" {
			r.limited++
		}
		return what.Add(e)
	})
	switch {
	case errors.Is(err, ErrMemory):
		return report.Report{}, fmt.Errorf("the requests do not fit into %d MiB of memory; name fewer files, or pass a part of the log: head -n 10000000 access.log | sluice suggest -", p.memory>>20)
	case err != nil:
		return report.Report{}, err
	}
	progress, done := searchProgress(terminal)
	defer done()
	searches, names := what.searches(p.goal)
	r.names = names
	if r.found, err = Run(ctx, progress, searches...); err != nil {
		return report.Report{}, err
	}
	return what.report(ctx, r)
}

// searchProgress returns a function that shows one more replay, and one that removes the progress
// bar. Nothing is shown in the first second.
func searchProgress(terminal io.Writer) (step, done func()) {
	start := time.Now()
	bar := logs.NewBar(terminal, -1, true, "searching, replays", progressbar.OptionShowCount())
	count, shown := 0, false
	step = func() {
		if count++; time.Since(start) > time.Second {
			shown = true
			_ = bar.Set(count)
		}
	}
	done = func() {
		if shown {
			_ = bar.Finish()
		}
	}
	return step, done
}

// suggestPolicies collects requests that all templates limit by the same key.
type suggestPolicies struct {
	logs.Keyed
	log       *Log
	templates []Template
	ipv6      int64 // requests from IPv6 addresses, if keys have addresses
}

func (s *suggestPolicies) Add(e *accesslog.Entry) error {
	if s.Keyer.Named()&accesslog.IP != 0 && bytes.IndexByte(e.IP, ':') >= 0 {
		s.ipv6++
	}
	_, err := s.log.Add(e.Time, s.KeyOf(e))
	return err
}

func (s *suggestPolicies) searches(goal Goal) (searches []Search, names []string) {
	requests, _ := s.log.Group()
	for _, t := range s.templates {
		searches = append(searches, Search{Requests: requests, Template: t, Goal: goal})
	}
	return searches, readable.Texts(s.templates)
}

func (s *suggestPolicies) report(_ context.Context, r *suggestReport) (report.Report, error) {
	var j jsonSuggestReport
	j.jsonSuggestHead, j.Problems = r.jsonHead()
	for i := range r.found {
		j.Suggestions = append(j.Suggestions, r.jsonOf(i))
	}
	return report.Report{Tables: s.tables(r), JSON: j, Chart: curvePicture{r, fmt.Sprintf("limited by %v", s.Keyer)}}, nil
}
