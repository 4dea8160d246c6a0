package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/httplimit"
)

const planExamples = `  sluice plan limits.old.yaml limits.yaml access.log
  git show main:limits.yaml | sluice plan - limits.yaml access.log access.log.1.gz
  sluice plan --markdown --max-newly-denied 0.1% limits.old.yaml limits.yaml access.log`

// planKeys is the largest number of keys that a plan can have. They take about 1.5 GiB.
const planKeys = 10_000_000

func planCommand(s streams) *cobra.Command {
	p := planRun{maxKeys: planKeys}
	c := &cobra.Command{
		Use:     "plan OLD NEW [LOG...]",
		Short:   "Show what a change of limits.yaml does to the requests of a log",
		Long:    planHelp,
		Example: planExamples,
		RunE: func(c *cobra.Command, args []string) error {
			err := p.run(c.Context(), args, s)
			if err != nil && !errors.Is(err, errExceeded) {
				err = exitError{err, exitUsage}
			}
			return err
		},
	}
	p.define(c.Flags())
	return c
}

// errExceeded means that the change exceeds a threshold, which the output says.
var errExceeded = fmt.Errorf("a threshold is exceeded: %w", errReported)

// planRun is the command line of sluice plan.
type planRun struct {
	logFlags
	reportFlags
	markdown     bool
	newlyDenied  shareLimit
	newlyAllowed shareLimit
	clients      int64 // the most clients that may be newly denied
	maxKeys      int64 // the most clients, and keys of rules, that the logs may have

	keyed
	old, new   *ruleSubject
	clientAddr func(*http.Request) string
	comparison *replay.Comparison[*http.Request]
}

func (p *planRun) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.BoolVar(&p.markdown, "markdown", false, "print Markdown for a pull request instead of text")
	flags.BoolVar(&p.json, "json", false, "print JSON instead of text")
	flags.IntVar(&p.top, "top", 10, "how many of the clients with the most newly denied and newly allowed requests to report")
	flags.Var(&p.newlyDenied, "max-newly-denied", "exit with status 1 if more requests than this are newly denied, such as 100 or 0.1%")
	flags.Var(&p.newlyAllowed, "max-newly-allowed", "exit with status 1 if more requests than this are newly allowed")
	flags.Int64Var(&p.clients, "max-clients", 0, "exit with status 1 if more clients than this are newly denied")
	p.logFlags.define(flags, "what identifies a client")
	flags.Lookup("key-field").Usage = "the `MEMBER` of JSON lines that holds the header or cookie of the rules, or the key of --by key"
	checkValues(flags)
}

// run returns errExceeded if the change exceeds a threshold.
func (p *planRun) run(ctx context.Context, args []string, s streams) error {
	if err := p.parse(args); err != nil {
		return err
	}
	if err := p.readRules(ctx, args[0], args[1], s); err != nil {
		return err
	}
	logs := args[2:]
	sources, err := p.open(ctx, "plan", logs, s)
	if err != nil {
		return err
	}
	if !slices.Contains(args, "-") {
		noteSample(logs, s)
	}
	oldRead, oldNamed := p.old.fields()
	newRead, newNamed := p.new.fields()
	read, named := p.fields()
	log, err := p.read(ctx, sources, oldRead|newRead|read, oldNamed|newNamed|named, s.err, func(e *accesslog.Entry) error { return p.add(ctx, e) })
	if err != nil {
		return err
	}
	return p.print(newPlanReport(p, log), s)
}

// parse checks the command line before anything is read.
func (p *planRun) parse(args []string) (err error) {
	if err := refuseEmpty(p.flags, "give it a value or leave it out", "time-field", "key-field"); err != nil {
		return err
	}
	switch {
	case len(args) < 2:
		return usagef("plan needs two rule files, OLD and NEW, got %d; for instance sluice plan limits.old.yaml limits.yaml access.log", len(args))
	case p.markdown && p.json:
		return usagef("--markdown and --json exclude each other; leave one out")
	}
	if p.keyer, err = p.parseBy(); err != nil {
		return err
	}
	return checkPlanFiles(args)
}

// checkPlanFiles checks the names of the rule files and the logs without reading the files.
func checkPlanFiles(args []string) error {
	infos := make([]os.FileInfo, len(args)) // nil: standard input, or there is no such file
	stdin := false
	for i, name := range args {
		if name == "-" && stdin {
			return usagef("standard input (-) can be read only once, and OLD, NEW and LOG name it twice; write one of them to a file")
		}
		if name == "-" {
			stdin = true
			continue
		}
		if i < 2 {
			if err := statConfig(name); err != nil {
				return err
			}
		}
		infos[i], _ = os.Stat(name) // openSources returns the error
		for j := range min(i, 2) {
			switch {
			case infos[i] == nil || infos[j] == nil || !os.SameFile(infos[i], infos[j]):
			case i == 1:
				return usagef("%s and %s are the same file, so nothing can change; name the rules before the change, for instance limits.old.yaml, and the rules after it", args[0], name)
			default:
				return usagef("%s is a rule file and a log at the same time; name a log after OLD and NEW, or no log to read the bundled sample", name)
			}
		}
	}
	return nil
}

// readRules reads both rule files. If a file has errors, it prints all errors of both.
func (p *planRun) readRules(ctx context.Context, before, after string, s streams) error {
	var reported error
	for _, f := range []struct {
		name    string
		subject **ruleSubject
	}{{before, &p.old}, {after, &p.new}} {
		name, file, err := readConfig(ctx, f.name, s)
		switch {
		case errors.Is(err, errReported):
			reported = err
			continue
		case err != nil:
			return err
		}
		if *f.subject, err = newRuleSubjectOfSeveral(name, file, p.keyField); err != nil {
			return err
		}
	}
	if reported != nil {
		return reported
	}
	return p.setUpComparison()
}

func (p *planRun) setUpComparison() (err error) {
	a, b := p.old.keyed, p.new.keyed
	switch {
	case a.Kind != "" && b.Kind != "" && a != b:
		return usagef("%s has rules by %v and %s has rules by %v, and --key-field names only one member; compare copies of the files without the rules by one of them", p.old.name, a, p.new.name, b)
	case p.keyField != "" && a.Kind == "" && b.Kind == "" && p.keyer.Named()&accesslog.Key == 0:
		return usagef("--key-field has no effect: no rule of %s and %s is by a header or a cookie, and --by %v does not name key; leave it out", p.old.name, p.new.name, p.keyer)
	}
	p.new.keyed = cmp.Or(a, b) // new makes the requests for both
	if p.clientAddr, err = (httplimit.ClientIP{Trusted: p.new.file.Trusted, IPv6Bits: p.new.file.IPv6Bits}).Key(); err != nil {
		return err
	}
	p.comparison = replay.NewComparison(p.old.replay, p.new.replay)
	return nil
}

func (p *planRun) add(ctx context.Context, e *accesslog.Entry) error {
	p.new.fill(e)
	r := &p.new.request
	p.old.countProxied(r)
	seen := *e
	if p.keyer.Fields()&accesslog.IP != 0 {
		seen.IP = []byte(p.clientAddr(r)) // the address that rules by ip limit
	}
	if p.comparison.Keys() > p.maxKeys {
		return fmt.Errorf("the logs have too many clients: plan keeps at most %d clients and keys of rules in memory; name fewer files, or pass a part of the log: head -n 1000000 access.log | sluice plan OLD NEW -", p.maxKeys)
	}
	return p.comparison.Add(ctx, e.Time, r, p.keyOf(&seen))
}

// print writes the report, and each exceeded threshold to standard error.
func (p *planRun) print(r *planReport, s streams) error {
	text := r.text
	if p.markdown {
		text = r.markdown
	}
	err := p.reportFlags.print(s.out, report{tables: text(), json: r})
	if err != nil {
		return err
	}
	for _, t := range r.Thresholds {
		if t.Exceeded {
			fmt.Fprintln(s.err, "sluice:", t)
			err = errExceeded
		}
	}
	return err
}
