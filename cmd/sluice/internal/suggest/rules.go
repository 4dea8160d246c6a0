package suggest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// suggestRules collects requests for the rules of a file.
type suggestRules struct {
	*rules.Subject
	memory  *Memory
	columns []ruleColumn
	rows    []ruleRow
	parts   []rulePart // of the searches
}

// ruleColumn has the requests of one rule.
type ruleColumn struct {
	log      *Log // of the requests that the rule's policy decides
	requests *Requests
	index    []uint32 // by the number of a key in log, its index in requests
	refused  int64    // requests that the rule denies because they lack its field
}

// ruleRow is one request.
type ruleRow struct {
	at   time.Time
	keys []uint32 // by rule, the number of its key in the rule's log, or one of these
}

const (
	notApplied = math.MaxUint32
	refused    = math.MaxUint32 - 1
)

// rulePart is what one search is about: a rule, or a part of its stack.
type rulePart struct {
	rule, part int
}

func newSuggestRules(name string, file *config.File, keyField string, memory *Memory) (*suggestRules, error) {
	subject, err := rules.NewSubject(name, file, keyField)
	if err != nil {
		return nil, err
	}
	s := &suggestRules{Subject: subject, memory: memory}
	for range file.Rules {
		s.columns = append(s.columns, ruleColumn{log: NewLog(memory)})
	}
	return s, nil
}

func (s *suggestRules) Add(e *accesslog.Entry) error {
	s.Fill(e)
	rules := len(s.columns)
	err := s.memory.Take(int64(56 + 4*rules))
	row := ruleRow{e.Time, make([]uint32, rules)}
	for i := 0; i < rules && err == nil; i++ {
		row.keys[i], err = s.addTo(i, e.Time)
	}
	s.rows = append(s.rows, row)
	return err
}

// addTo adds the request to a rule, and returns the number of its key there.
func (s *suggestRules) addTo(i int, at time.Time) (uint32, error) {
	rule, column := &s.Rules[i], &s.columns[i]
	if rule.PolicyFor != nil {
		p, err := rule.PolicyFor(&s.Request)
		if errors.Is(err, sluice.Skip) {
			return notApplied, nil
		}
		if err != nil {
			return 0, err
		}
		if _, denied := p.(denyall.Policy); denied {
			column.refused++
			return refused, nil
		}
	}
	var key string
	if rule.Key != nil {
		key = rule.Key(&s.Request)
	}
	return column.log.Add(at, []byte(key))
}

func (s *suggestRules) searches(goal Goal) (searches []Search, names []string) {
	for i := range s.columns {
		c, rule := &s.columns[i], &s.File.Rules[i]
		c.requests, c.index = c.log.Group()
		if c.requests.Len() == 0 {
			continue
		}
		parts := backtest.Parts(rule.Policy)
		for j, part := range parts {
			name := rules.Name(rule)
			if len(parts) > 1 {
				name += fmt.Sprintf(", part %d of %d", j+1, len(parts))
			}
			s.parts, names = append(s.parts, rulePart{i, j}), append(names, name)
			searches = append(searches, Search{Requests: c.requests, Template: CountOf(part), Cost: rule.Cost.Units, Goal: goal})
		}
	}
	return searches, names
}

func (s *suggestRules) report(ctx context.Context, common *suggestReport) (report.Report, error) {
	r := &suggestRulesReport{suggestReport: common, suggestRules: s}
	var now []algo.Policy
	for i := range s.File.Rules {
		now = append(now, s.File.Rules[i].Policy)
	}
	var err error
	if r.policies, err = r.suggested(); err != nil {
		return report.Report{}, err
	}
	if r.now, err = s.together(ctx, now); err != nil {
		return report.Report{}, err
	}
	if r.together, err = s.together(ctx, r.policies); err != nil {
		return report.Report{}, err
	}
	return report.Report{Tables: r.tables(), JSON: r.JSON(), Chart: curvePicture{common, "rules of " + readable.BaseName(s.Name)}}, nil
}

// together replays the requests through all rules, with these policies in place of their own.
func (s *suggestRules) together(ctx context.Context, policies []algo.Policy) (*backtest.RulesReport, error) {
	var rules []sluice.Rule[*ruleRow]
	for i, p := range policies {
		c, rule := &s.columns[i], &s.File.Rules[i]
		rules = append(rules, sluice.Rule[*ruleRow]{
			Name:   rule.Name,
			Shadow: rule.Shadow,
			Key: func(r *ruleRow) string {
				if r.keys[i] >= refused {
					return ""
				}
				return c.requests.Name(c.index[r.keys[i]])
			},
			PolicyFor: func(r *ruleRow) (algo.Policy, error) {
				switch r.keys[i] {
				case notApplied:
					return nil, sluice.Skip
				case refused:
					return denyall.Policy{Policy: p}, nil
				}
				return p, nil
			},
			Cost: func(*ruleRow) int64 { return rule.Cost.Units },
		})
	}
	all, err := backtest.NewRules(rules, policies)
	if err != nil {
		return nil, err
	}
	for i := range s.rows {
		if _, err := all.Add(ctx, s.rows[i].at, &s.rows[i]); err != nil {
			return nil, err
		}
	}
	r := all.Report(0)
	return &r, nil
}

// suggestRulesReport is the report for the rules of a file.
type suggestRulesReport struct {
	*suggestReport
	*suggestRules
	policies      []algo.Policy // by rule: the suggestions, or the rule's own where nothing was found
	now, together *backtest.RulesReport
}

// suggested returns the policies with the suggestions in place.
func (r *suggestRulesReport) suggested() (policies []algo.Policy, err error) {
	parts := make([][]algo.Policy, len(r.File.Rules))
	for i := range r.File.Rules {
		parts[i] = append(parts[i], backtest.Parts(r.File.Rules[i].Policy)...)
	}
	for i, at := range r.parts {
		if r.found[i].Found {
			parts[at.rule][at.part] = r.found[i].Best.Policy.Policy
		}
	}
	for i := range parts {
		p := parts[i][0]
		if _, stacked := r.File.Rules[i].Policy.(*compose.Stack); stacked {
			if p, err = compose.All(parts[i]...); err != nil {
				return nil, err
			}
		}
		policies = append(policies, p)
	}
	return policies, nil
}

func (r *suggestRulesReport) tables() string {
	w := new(strings.Builder)
	r.log.Head(w, fmt.Sprintf("%s of %s", readable.Plural(int64(len(r.File.Rules)), "rule"), readable.Graphic(r.Name)), r.Instead)
	r.PrintProxied(w)
	fmt.Fprintf(w, "the goal: at least %v of the %v of each rule untouched\n\n", r.goal.Share, r.goal.Of)
	var now, suggested [][2]string
	for i := range r.File.Rules {
		rule := &r.File.Rules[i]
		now = append(now, [2]string{rules.Name(rule), rules.Text(rule)})
		policy := r.policies[i].String()
		if policy == rule.Policy.String() {
			policy += ", as before"
		}
		suggested = append(suggested, [2]string{rules.Name(rule), policy})
	}
	report.Legend(w, now)
	r.printFound(w, true, "keys of the rule with at least one denied request", "the most units that the rule admits for one key; a request takes one unit, or the cost of the rule")
	r.printNotes(w)
	r.printUnsearched(w)
	r.printTogether(w)
	fmt.Fprintf(w, "\npolicies for a copy of %s:\n", readable.BaseName(r.Name))
	report.Legend(w, suggested)
	for i, at := range r.parts {
		rules.PrintDenials(w, &r.File.Rules[at.rule], r.names[i], r.found[i].Denied[:min(len(r.found[i].Denied), r.top)])
	}
	r.printCurve(w, "the count")
	r.printLimits(w)
	return w.String()
}

// printUnsearched explains what the searches leave out.
func (r *suggestRulesReport) printUnsearched(w io.Writer) {
	for i := range r.columns {
		c, name := &r.columns[i], rules.Name(&r.File.Rules[i])
		if c.requests.Len() == 0 {
			fmt.Fprintf(w, "\n%s: no request to find a count with, so its policy stays as it is\n", name)
		}
		if c.refused > 0 {
			fmt.Fprintf(w, "\n%s: it denies %s without its field, whatever the count; the goal leaves them out\n", name, readable.Plural(c.refused, "request"))
		}
	}
}

func (r *suggestRulesReport) printTogether(w io.Writer) {
	rows := [][]any{{"all rules together", "requests", "allowed", "denied", "share denied", "longest wait"}}
	for _, row := range [...]struct {
		name string
		*backtest.RulesReport
	}{{"with the policies found", r.together}, {"with the policies of the file", r.now}} {
		rows = append(rows, []any{row.name, row.Requests, row.Allowed, row.Denied, readable.Share(row.Denied, row.Requests), readable.Wait(row.LongestWait, row.Never)})
	}
	report.Table(w, rows)
	fmt.Fprint(w, "\nEach rule was searched alone. Together, rules can deny more than each does alone.\n")
}

// jsonSuggestRules is the output of --json with --config. The help documents it.
type jsonSuggestRules struct {
	jsonSuggestHead
	Proxied  int64             `json:"proxied"`
	Together rules.Together    `json:"together"`
	Now      rules.Together    `json:"now"`
	Rules    []jsonSuggestRule `json:"rules"`
	logs.Problems
}

type jsonSuggestRule struct {
	Rule        string           `json:"rule"`
	By          []string         `json:"by"`
	Cost        int64            `json:"cost"`
	Shadow      bool             `json:"shadow"`
	Refused     int64            `json:"refused"`
	Policy      string           `json:"policy"`
	Suggestions []jsonSuggestion `json:"suggestions"`
}

func (r *suggestRulesReport) JSON() jsonSuggestRules {
	j := jsonSuggestRules{Proxied: r.Proxied, Together: rules.TogetherOf(r.together), Now: rules.TogetherOf(r.now)}
	j.jsonSuggestHead, j.Problems = r.jsonHead()
	for i := range r.File.Rules {
		rule := &r.File.Rules[i]
		j.Rules = append(j.Rules, jsonSuggestRule{
			Rule: rule.Name, By: readable.Texts(rule.By), Cost: rule.Cost.Units, Shadow: rule.Shadow,
			Refused: r.columns[i].refused, Policy: r.policies[i].String(), Suggestions: []jsonSuggestion{},
		})
	}
	for i, at := range r.parts {
		to := &j.Rules[at.rule].Suggestions
		*to = append(*to, r.jsonOf(i))
	}
	return j
}
