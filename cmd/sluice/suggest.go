package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// suggestMemory is the most memory that the requests of a log may take.
const suggestMemory = 1 << 30

const suggestExamples = `  sluice suggest
  sluice suggest --untouched 99.5% --of clients access.log access.log.1.gz
  sluice suggest -p "gcra ?/m burst=20" -p "gcra 100/m burst=?" access.log
  sluice suggest --per 1h --out curve.svg access.log
  sluice suggest --config limits.yaml access.log`

func suggestCommand(s streams) *cobra.Command {
	p := suggestRun{memory: suggestMemory}
	c := &cobra.Command{
		Use:     "suggest [LOG...]",
		Short:   "Find the tightest limits that leave most of a log's requests untouched",
		Long:    suggestHelp,
		Example: suggestExamples,
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c.Context(), args, s) },
	}
	p.define(c.Flags())
	return c
}

// suggestRun is the command line of sluice suggest.
type suggestRun struct {
	logFlags
	reportFlags
	untouched, of string
	per           time.Duration
	memory        int64 // the most bytes that the requests may take

	goal      suggest.Goal
	keyer     *accesslog.Keyer
	templates []suggest.Template
	file      *config.File // nil: templates are searched
}

func (p *suggestRun) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&p.untouched, "untouched", "99.9%", "the least `SHARE` that must not be denied")
	flags.StringVar(&p.of, "of", "requests", "what --untouched is a share of, `WHAT`: requests or clients")
	flags.StringArrayVarP(&p.specs, "policy", "p", nil, "find the number in place of the ? in this `POLICY`; repeat the flag for several")
	flags.DurationVar(&p.per, "per", time.Minute, "without --policy: the period of the limits")
	flags.StringVar(&p.config, "config", "", "find a count for each rule of this `FILE`, a limits.yaml, instead of --policy")
	flags.StringVar(&p.out, "out", "", "also draw the share denied for each number into this `FILE`, .svg or .png")
	flags.BoolVar(&p.json, "json", false, "print JSON instead of tables")
	flags.IntVar(&p.top, "top", 10, "how many of the most denied clients to report")
	p.logFlags.define(flags, "what identifies a client")
	checkValues(flags)
}

func (p *suggestRun) run(ctx context.Context, args []string, s streams) error {
	if err := p.parse(ctx); err != nil {
		return err
	}
	sources, err := p.open(ctx, "suggest", args, s)
	if err != nil {
		return err
	}
	if p.out != "" {
		if err := checkPicture(p.out, sources, s); err != nil {
			return err
		}
	}
	what, err := p.subject()
	if err != nil {
		return err
	}
	noteSample(args, s)
	report, err := p.suggest(ctx, what, sources, s.err)
	if err != nil {
		return err
	}
	return p.print(s.out, report)
}

// parse parses the flags before any log is read.
func (p *suggestRun) parse(ctx context.Context) (err error) {
	if err := p.reportFlags.validate(p.flags); err != nil {
		return err
	}
	if p.goal.Share, err = suggest.ParseShare(p.untouched); err != nil {
		return usagef("--untouched %w", err)
	}
	if p.goal.Of, err = suggest.ParseUnit(p.of); err != nil {
		return usagef("--of %w", err)
	}
	switch {
	case !algo.Per(1, p.per).IsValid():
		return usagef("--per %s: want a period from 1us to 26062d in whole microseconds, such as 1m or 1h", readable.Exact(p.per))
	case p.flags.Changed("per") && len(p.specs) > 0:
		return usagef("--per and -p exclude each other; leave --per out, or write the period into the policy, such as gcra ?/h")
	case p.flags.Changed("per") && p.config != "":
		return usagef("--per and --config exclude each other; leave --per out: the rules of %s have their own periods", p.config)
	case p.config != "":
		p.file, err = p.readRules(ctx)
		return err
	}
	if p.keyer, err = p.parseKeyer(); err != nil {
		return err
	}
	for _, spec := range p.templateSpecs() {
		t, err := suggest.ParseTemplate(spec)
		if err != nil {
			return policyError(err)
		}
		p.templates = append(p.templates, t)
	}
	return nil
}

// templateSpecs returns those of --policy, or else one for each algorithm.
func (p *suggestRun) templateSpecs() []string {
	if len(p.specs) > 0 {
		return p.specs
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
	// fields returns the fields of an entry that it reads, and those that keys and rules name.
	fields() (read, named accesslog.Fields)
	add(e *accesslog.Entry) error
	// searches returns the searches and their names. No entry is added afterwards.
	searches(goal suggest.Goal) (searches []suggest.Search, names []string)
	// report makes the report from the results of the searches.
	report(ctx context.Context, r *suggestReport) (report, error)
}

func (p *suggestRun) subject() (suggestSubject, error) {
	memory := suggest.NewMemory(p.memory)
	if p.file != nil {
		return newSuggestRules(p.config, p.file, p.keyField, memory)
	}
	return &suggestPolicies{keyed: keyed{keyer: p.keyer}, log: suggest.NewLog(memory), templates: p.templates}, nil
}

func (p *suggestRun) suggest(ctx context.Context, what suggestSubject, sources []source, terminal io.Writer) (report, error) {
	read, named := what.fields()
	r := &suggestReport{goal: p.goal, top: p.top}
	var err error
	r.log, err = p.read(ctx, sources, read|accesslog.Status, named, terminal, func(e *accesslog.Entry) error {
		if e.Status == http.StatusTooManyRequests {
			r.limited++
		}
		return what.add(e)
	})
	switch {
	case errors.Is(err, suggest.ErrMemory):
		return report{}, fmt.Errorf("the requests do not fit into %d MiB of memory; name fewer files, or pass a part of the log: head -n 10000000 access.log | sluice suggest -", p.memory>>20)
	case err != nil:
		return report{}, err
	}
	progress, done := searchProgress(terminal)
	defer done()
	searches, names := what.searches(p.goal)
	r.names = names
	if r.found, err = suggest.Run(ctx, progress, searches...); err != nil {
		return report{}, err
	}
	return what.report(ctx, r)
}

// searchProgress returns a function that shows one more replay, and one that removes the progress
// bar. Nothing is shown in the first second.
func searchProgress(terminal io.Writer) (step, done func()) {
	start := time.Now()
	bar := newBar(terminal, -1, true, "searching, replays", progressbar.OptionShowCount())
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
	keyed
	log       *suggest.Log
	templates []suggest.Template
	ipv6      int64 // requests from IPv6 addresses, if keys have addresses
}

func (s *suggestPolicies) add(e *accesslog.Entry) error {
	if s.keyer.Named()&accesslog.IP != 0 && bytes.IndexByte(e.IP, ':') >= 0 {
		s.ipv6++
	}
	_, err := s.log.Add(e.Time, s.keyOf(e))
	return err
}

func (s *suggestPolicies) searches(goal suggest.Goal) (searches []suggest.Search, names []string) {
	requests, _ := s.log.Group()
	for _, t := range s.templates {
		searches = append(searches, suggest.Search{Requests: requests, Template: t, Goal: goal})
	}
	return searches, texts(s.templates)
}

func (s *suggestPolicies) report(_ context.Context, r *suggestReport) (report, error) {
	var j jsonSuggestReport
	j.jsonSuggestHead, j.jsonProblems = r.jsonHead()
	for i := range r.found {
		j.Suggestions = append(j.Suggestions, r.jsonOf(i))
	}
	return report{s.tables(r), j, curvePicture{r, fmt.Sprintf("limited by %v", s.keyer)}}, nil
}
