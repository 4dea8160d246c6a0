package main

import (
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// jsonPlan is the output of plan --json. The help documents it.
type jsonPlan struct {
	jsonLog
	Requests         int64              `json:"requests"`
	Old              jsonPlanFile       `json:"old"`
	New              jsonPlanFile       `json:"new"`
	NewlyDenied      int64              `json:"newly_denied"`
	NewlyAllowed     int64              `json:"newly_allowed"`
	By               string             `json:"by"`
	Clients          jsonPlanClients    `json:"clients"`
	MostNewlyDenied  []jsonClientChange `json:"most_newly_denied"`
	MostNewlyAllowed []jsonClientChange `json:"most_newly_allowed"`
	SameRules        bool               `json:"same_rules"`
	Settings         []jsonDifference   `json:"settings"`
	Rules            []jsonRuleChange   `json:"rules"`
	Strictest        []jsonStrictest    `json:"strictest"`
	Thresholds       []jsonThreshold    `json:"thresholds"`
	jsonProblems
}

type jsonPlanFile struct {
	File    string `json:"file"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
	Proxied int64  `json:"proxied"`
}

type jsonPlanClients struct {
	All          int64 `json:"all"`
	NewlyDenied  int64 `json:"newly_denied"`
	NewlyAllowed int64 `json:"newly_allowed"`
}

type jsonClientChange struct {
	Client       string `json:"client"`
	Requests     int64  `json:"requests"`
	DeniedBefore int64  `json:"denied_before"`
	NewlyDenied  int64  `json:"newly_denied"`
	NewlyAllowed int64  `json:"newly_allowed"`
}

type jsonDifference struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

type jsonRuleChange struct {
	Rule              string           `json:"rule"`
	Change            string           `json:"change"`
	Differences       []jsonDifference `json:"differences"`
	OtherAlgorithm    bool             `json:"other_algorithm"`
	Old               *jsonRuleSide    `json:"old"` // null: the rule is added
	New               *jsonRuleSide    `json:"new"` // null: the rule is removed
	NewlyDenied       int64            `json:"newly_denied"`
	NewlyDeniedAlone  int64            `json:"newly_denied_alone"`
	NewlyAllowed      int64            `json:"newly_allowed"`
	NewlyAllowedAlone int64            `json:"newly_allowed_alone"`
	Bounds            []jsonBound      `json:"bounds"`
}

type jsonRuleSide struct {
	Policy   string   `json:"policy"`
	By       []string `json:"by"`
	Cost     int64    `json:"cost"`
	Shadow   bool     `json:"shadow"`
	Requests int64    `json:"requests"`
	Denied   int64    `json:"denied"`
	Keys     int64    `json:"keys"`
}

type jsonBound struct {
	Interval string `json:"interval"`
	Old      *int64 `json:"old"`
	New      *int64 `json:"new"`
}

type jsonStrictest struct {
	Interval string `json:"interval"`
	Bound    int64  `json:"bound"`
	Rule     string `json:"rule"`
}

type jsonThreshold struct {
	Flag     string `json:"flag"`
	Limit    string `json:"limit"`
	Most     int64  `json:"most"`
	Count    int64  `json:"count"`
	Exceeded bool   `json:"exceeded"`
}

func (r *planReport) json() jsonPlan {
	j := jsonPlan{
		Requests:         r.log.Entries,
		Old:              jsonPlanFile{r.old.name, r.Before.Allowed, r.Before.Denied, r.old.proxied},
		New:              jsonPlanFile{r.new.name, r.After.Allowed, r.After.Denied, r.new.proxied},
		NewlyDenied:      r.NewlyDenied,
		NewlyAllowed:     r.NewlyAllowed,
		By:               r.keyer.String(),
		Clients:          jsonPlanClients{r.Clients, r.ClientsNewlyDenied, r.ClientsNewlyAllowed},
		MostNewlyDenied:  jsonClients(r.MostNewlyDenied),
		MostNewlyAllowed: jsonClients(r.MostNewlyAllowed),
		SameRules:        r.sameRules(),
		Settings:         jsonDifferences(r.settings),
		Rules:            []jsonRuleChange{},
		Strictest:        []jsonStrictest{},
		Thresholds:       []jsonThreshold{},
	}
	j.jsonLog, j.jsonProblems = r.log.json()
	for i := range r.rules {
		j.Rules = append(j.Rules, r.rules[i].json())
	}
	for _, s := range r.strictest {
		j.Strictest = append(j.Strictest, jsonStrictest{s.interval.String(), s.most, s.rule.Name})
	}
	for _, t := range r.thresholds {
		j.Thresholds = append(j.Thresholds, jsonThreshold{t.flag, t.text, t.most, t.count, t.exceeded()})
	}
	return j
}

func jsonClients(clients []replay.ClientChange) []jsonClientChange {
	all := []jsonClientChange{}
	for _, c := range clients {
		all = append(all, jsonClientChange(c))
	}
	return all
}

func jsonDifferences(differences []difference) []jsonDifference {
	all := []jsonDifference{}
	for _, d := range differences {
		all = append(all, jsonDifference{d.field, d.before, d.after})
	}
	return all
}

func (c *ruleChange) json() jsonRuleChange {
	j := jsonRuleChange{
		Rule:              c.rule().Name,
		Change:            c.kind(),
		Differences:       jsonDifferences(c.differences),
		OtherAlgorithm:    c.otherAlgorithm(),
		Old:               c.before.json(),
		New:               c.after.json(),
		NewlyDenied:       c.denied.Denied,
		NewlyDeniedAlone:  c.denied.Alone,
		NewlyAllowed:      c.allowed.Denied,
		NewlyAllowedAlone: c.allowed.Alone,
		Bounds:            []jsonBound{},
	}
	for _, b := range c.bounds() {
		j.Bounds = append(j.Bounds, jsonBound{b.interval.String(), b.before, b.after})
	}
	return j
}

func (s *ruleSide) json() *jsonRuleSide {
	if s == nil {
		return nil
	}
	return &jsonRuleSide{s.Policy.String(), texts(s.By), s.Cost.Units, s.Shadow, s.counts.Requests, s.counts.Denied, s.counts.Keys}
}
