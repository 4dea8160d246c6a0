// Package plan is the command sluice plan. It replays a log through two rule files at the same time.
package plan

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/httplimit"
)

//go:embed help.txt
var help string

const planExamples = `  sluice plan limits.old.yaml limits.yaml access.log
  git show main:limits.yaml | sluice plan - limits.yaml access.log access.log.1.gz
  sluice plan --markdown --max-newly-denied 0.1% limits.old.yaml limits.yaml access.log`

// planKeys is the largest number of keys that a plan can have. They take about 1.5 GiB.
const planKeys = 10_000_000

// Command implements [cli.NewCommand].
func Command(s cli.Streams) *cobra.Command {
	p := planRun{maxKeys: planKeys}
	c := &cobra.Command{
		Use:     "plan OLD NEW [LOG...]",
		Short:   "Show what a change of limits.yaml does to the requests of a log",
		Long:    help,
		Example: planExamples,
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c.Context(), args, s) },
	}
	p.Define(c.Flags())
	return c
}

// planRun is the command line of sluice plan.
type planRun struct {
	logs.Input
	report.Output
	markdown     bool
	newlyDenied  shareLimit
	newlyAllowed shareLimit
	clients      int64 // the most clients that may be newly denied
	maxKeys      int64 // the most clients, and keys of rules, that the logs may have

	*accesslog.Keyer
	old, new   *rules.Subject
	clientAddr func(*http.Request) string
	comparison *backtest.Comparison[*http.Request]
}

func (p *planRun) Define(flags *pflag.FlagSet) {
	flags.BoolVar(&p.markdown, "markdown", false, "print Markdown for a pull request instead of text")
	flags.BoolVar(&p.JSON, "json", false, "print JSON instead of text")
	flags.IntVar(&p.Top, "top", 10, "how many of the clients with the most newly denied and newly allowed requests to report")
	flags.Var(&p.newlyDenied, "max-newly-denied", "exit with status 1 if more requests than this are newly denied, such as 100 or 0.1%")
	flags.Var(&p.newlyAllowed, "max-newly-allowed", "exit with status 1 if more requests than this are newly allowed")
	flags.Int64Var(&p.clients, "max-clients", 0, "exit with status 1 if more clients than this are newly denied")
	p.Input.Define(flags, "what identifies a client")
	flags.Lookup("key-field").Usage = "the `MEMBER` of JSON lines that holds the header or cookie of the rules, or the key of --by key"
}

// run returns cli.ErrExceeded if the change exceeds a threshold.
func (p *planRun) run(ctx context.Context, args []string, s cli.Streams) error {
	if err := p.parse(args); err != nil {
		return err
	}
	if err := p.readRules(ctx, args[:2], s); err != nil {
		return err
	}
	files := args[2:]
	sources, err := p.Open(ctx, "plan", files, s)
	if err != nil {
		return err
	}
	if !slices.Contains(args, "-") {
		logs.NoteSample(files, s)
	}
	oldRead, oldNamed := p.old.Fields()
	newRead, newNamed := p.new.Fields()
	read, named := p.Fields()
	log, err := p.Read(ctx, sources, oldRead|newRead|read, oldNamed|newNamed|named, s.Err, func(e *accesslog.Entry) error { return p.Add(ctx, e) })
	if err != nil {
		return err
	}
	return p.Print(newPlanReport(p, log), s)
}

// parse checks the command line before anything is read.
func (p *planRun) parse(args []string) (err error) {
	switch {
	case len(args) < 2:
		return cli.Usagef("plan needs two rule files, OLD and NEW, got %d; for instance sluice plan limits.old.yaml limits.yaml access.log", len(args))
	case p.markdown && p.JSON:
		return cli.Usagef("--markdown and --json exclude each other; leave one out")
	}
	if p.Keyer, err = p.ParseBy(); err != nil {
		return err
	}
	return checkPlanFiles(args)
}

// checkPlanFiles checks the names of the rule files and the logs without reading the files.
func checkPlanFiles(args []string) error {
	for i, name := range args {
		if name == "-" {
			if slices.Contains(args[:i], "-") {
				return cli.Usagef("standard input (-) can be read only once, and OLD, NEW and LOG name it twice; write one of them to a file")
			}
			continue
		}
		if i < 2 {
			if err := rules.Stat(name); err != nil {
				return err
			}
		}
		switch same := slices.ContainsFunc(args[:min(i, 2)], func(rules string) bool { return isSameFile(rules, name) }); {
		case same && i == 1:
			return cli.Usagef("%s and %s are the same file, so nothing can change; name the rules before the change, for instance limits.old.yaml, and the rules after it", args[0], name)
		case same:
			return cli.Usagef("%s is a rule file and a log at the same time; name a log after OLD and NEW, or no log to read the bundled sample", name)
		}
	}
	return nil
}

func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return a != "-" && errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// readRules reads both rule files. If a file has errors, it prints all errors of both.
func (p *planRun) readRules(ctx context.Context, names []string, s cli.Streams) error {
	subjects := [...]**rules.Subject{&p.old, &p.new}
	err := rules.Each(ctx, names, s, func(i int, name string, f *config.File) (err error) {
		*subjects[i], err = rules.NewSubjectOfSeveral(name, f, p.KeyField, (*config.Rule).HoldsUnits)
		return err
	})
	if err != nil {
		return err
	}
	return p.setUpComparison()
}

func (p *planRun) setUpComparison() (err error) {
	a, b := p.old.Keyed, p.new.Keyed
	switch {
	case a.Kind != "" && b.Kind != "" && a != b:
		return cli.Usagef("%s has rules by %v and %s has rules by %v, and --key-field names only one member; compare copies of the files without the rules by one of them", p.old.Name, a, p.new.Name, b)
	case p.KeyField != "" && a.Kind == "" && b.Kind == "" && p.Keyer.Named()&accesslog.Key == 0:
		return cli.Usagef("--key-field has no effect: no rule of %s and %s is by a header or a cookie, and --by %v does not name key; leave it out", p.old.Name, p.new.Name, p.Keyer)
	}
	p.new.Keyed = cmp.Or(a, b) // new makes the requests for both
	if p.clientAddr, err = (httplimit.ClientIP{Trusted: p.new.File.Trusted, IPv6Bits: p.new.File.IPv6Bits}).Key(); err != nil {
		return err
	}
	p.comparison = backtest.NewComparison(p.old.Replay, p.new.Replay)
	return nil
}

func (p *planRun) Add(ctx context.Context, e *accesslog.Entry) error {
	p.new.Fill(e)
	r := &p.new.Request
	p.old.CountProxied(r)
	seen := *e
	if read, _ := p.Fields(); read&accesslog.IP != 0 {
		seen.IP = []byte(p.clientAddr(r)) // the address that rules by ip limit
	}
	if p.comparison.Keys() > p.maxKeys {
		return fmt.Errorf("the logs have too many clients: plan keeps at most %d clients and keys of rules in memory; name fewer files, or pass a part of the log: head -n 1000000 access.log | sluice plan OLD NEW -", p.maxKeys)
	}
	return p.comparison.Add(ctx, e.Time, r, p.Key(&seen))
}

// Print writes the report, and each exceeded threshold to standard error.
func (p *planRun) Print(r *planReport, s cli.Streams) error {
	err := p.Output.Print(s.Out, report.Report{Tables: r.text(p.markdown), JSON: r})
	if err != nil {
		return err
	}
	for _, t := range r.Thresholds {
		if t.Exceeded {
			fmt.Fprintln(s.Err, "sluice:", t)
			err = cli.ErrExceeded
		}
	}
	return err
}
