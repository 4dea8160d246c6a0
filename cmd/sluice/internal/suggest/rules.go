package suggest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/report"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/denyall"
)

// fileSubject collects requests for the rules of a file.
type fileSubject struct {
	*rules.Subject
	memory *Memory
	rules  []*Rule
	rows   []ruleRow
}

// Rule has the requests of one rule, and what is found for it. Its JSON is a part of the output, which the help documents.
type Rule struct {
	rules.Head
	Refused     int64         `json:"refused"`     // requests that the rule denies because they lack its field
	Policy      string        `json:"policy"`      // the rule's own if nothing is found
	Suggestions []*Suggestion `json:"suggestions"` // one for each part of its policy, or none

	rule *config.Rule
	log  *Log // of the requests that the rule's policy decides
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

// isLeftOut reports whether no limit can be suggested for a rule: requests are counted once, before it is known which limit decides
// them, so charges cannot be given back.
func isLeftOut(r *config.Rule) bool { return r.HoldsUnits() || len(r.Count) > 0 }

func newFileSubject(name string, file *config.File, keyField string, memory *Memory) (*fileSubject, error) {
	of, err := rules.NewSubject(name, file, keyField, isLeftOut)
	if err != nil {
		return nil, err
	}
	s := &fileSubject{Subject: of, memory: memory}
	for i := range of.File.Rules {
		r := &of.File.Rules[i]
		s.rules = append(s.rules, &Rule{Head: rules.HeadOf(r), Suggestions: []*Suggestion{}, rule: r, log: NewLog(memory)})
	}
	return s, nil
}

func (s *fileSubject) Add(e *accesslog.Entry) error {
	s.Fill(e)
	err := s.memory.Take(int64(56 + 4*len(s.rules)))
	row := ruleRow{e.Time, make([]uint32, len(s.rules))}
	for i := 0; i < len(s.rules) && err == nil; i++ {
		row.keys[i], err = s.addTo(i, e.Time)
	}
	s.rows = append(s.rows, row)
	return err
}

// addTo adds the request to a rule, and returns the number of its key there.
func (s *fileSubject) addTo(i int, at time.Time) (uint32, error) {
	rule := &s.Rules[i]
	if rule.PolicyFor != nil {
		p, err := rule.PolicyFor(&s.Request)
		if errors.Is(err, sluice.Skip) {
			return notApplied, nil
		}
		if err != nil {
			return 0, err
		}
		if _, denied := p.(denyall.Policy); denied {
			s.rules[i].Refused++
			return refused, nil
		}
	}
	var key string
	if rule.Key != nil {
		key = rule.Key(&s.Request)
	}
	return s.rules[i].log.Add(at, []byte(key))
}

func (s *fileSubject) suggestions(goal Goal) (all []*Suggestion) {
	for _, r := range s.rules {
		r.log.Sort()
		if r.log.Len() == 0 {
			continue
		}
		parts := backtest.Parts(r.rule.Policy)
		for i, part := range parts {
			part, _ = r.punished(part) // the duration is valid
			name := r.Name()
			if len(parts) > 1 {
				name += fmt.Sprintf(", part %d of %d", i+1, len(parts))
			}
			r.Suggestions = append(r.Suggestions, &Suggestion{Name: name, Log: r.log, Template: CountOf(part), Cost: r.rule.Cost.Units, Goal: goal})
		}
		all = append(all, r.Suggestions...)
	}
	return all
}

// fileReport is what the template shows of the rules of a file.
type fileReport struct {
	*Report
	Head, File string
}

func (s *fileSubject) report(ctx context.Context, r *Report) (text, by string, err error) {
	var now, found []algo.Policy
	for _, rule := range s.rules {
		p, err := rule.found()
		if err != nil {
			return "", "", err
		}
		rule.Policy = p.String()
		now, found = append(now, rule.rule.Policy), append(found, p)
	}
	r.RulesReport = &RulesReport{Proxied: s.Proxied, Rules: s.rules, LeftOut: s.LeftOutNames()}
	if r.Now, err = s.together(ctx, now); err != nil {
		return "", "", err
	}
	if r.Together, err = s.together(ctx, found); err != nil {
		return "", "", err
	}
	r.cutTopDenied()
	name := readable.BaseName(s.Subject.Name)
	return report.Text(reports, "rules", fileReport{r, s.Describe(r.log), name}), "rules of " + name, nil
}

// together replays the requests through all rules, with these policies in place of their own.
func (s *fileSubject) together(ctx context.Context, policies []algo.Policy) (t rules.Together, err error) {
	var all []sluice.Rule[*ruleRow]
	for i, p := range policies {
		of := s.rules[i]
		all = append(all, sluice.Rule[*ruleRow]{
			Name:   of.Rule,
			Shadow: of.Shadow,
			Key: func(r *ruleRow) string {
				if r.keys[i] >= refused {
					return ""
				}
				return of.log.Name(r.keys[i])
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
			Cost: func(*ruleRow) int64 { return of.Cost },
		})
	}
	replay, err := backtest.NewRules(all, policies)
	if err != nil {
		return t, err
	}
	for i := range s.rows {
		if _, err := replay.Add(ctx, s.rows[i].at, &s.rows[i]); err != nil {
			return t, err
		}
	}
	r := replay.Report(0)
	return rules.TogetherOf(&r), nil
}

// found returns the policy of the rule with the suggestions in place.
func (r *Rule) found() (_ algo.Policy, err error) {
	parts := slices.Clone(backtest.Parts(r.rule.Policy))
	for i, s := range r.Suggestions {
		if s.Found {
			parts[i] = backtest.Parts(s.Best.Policy.Policy)[0]
		}
	}
	found := parts[0]
	if compose.StackOf(r.rule.Policy) != nil {
		if found, err = compose.All(parts...); err != nil {
			return nil, err
		}
	}
	return r.punished(found)
}

// punished returns the policy inside the penalty of the rule, or the policy itself if the rule has none.
func (r *Rule) punished(p algo.Policy) (algo.Policy, error) {
	if penalty, ok := r.rule.Policy.(*compose.Penalty); ok {
		return compose.Punish(p, penalty.Duration())
	}
	return p, nil
}

// Name returns the name of the rule in tables.
func (r *Rule) Name() string { return rules.Name(r.rule) }

// Text describes the rule as it is in the file.
func (r *Rule) Text() string { return rules.Text(r.rule) }

// Unsearched reports whether there is no request to find a count with.
func (r *Rule) Unsearched() bool { return r.log.Len() == 0 }

// Unchanged reports whether the policy is that of the file.
func (r *Rule) Unchanged() bool { return r.Policy == r.rule.Policy.String() }

// Denials returns the tables of the most denied keys.
func (r *Rule) Denials() (tables string) {
	for _, s := range r.Suggestions {
		tables += rules.Denials(r.rule, s.Name, s.TopDenied)
	}
	return tables
}
