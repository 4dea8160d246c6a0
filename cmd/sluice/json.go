package main

import (
	"encoding/json"
	"io"
)

// The types below are the output of --json, as its help documents it.
type jsonReport struct {
	Lines         int64        `json:"lines"`
	Skipped       int64        `json:"skipped"`
	Reordered     int64        `json:"reordered"`
	Late          int64        `json:"late"`
	Disagreements int64        `json:"disagreements"`
	Policies      []jsonPolicy `json:"policies"`
	Damaged       []jsonDamage `json:"damaged"`
}

type jsonDamage struct {
	File    string `json:"file"`
	Problem string `json:"problem"`
}

type jsonPolicy struct {
	Policy      string       `json:"policy"`
	Requests    int64        `json:"requests"`
	Allowed     int64        `json:"allowed"`
	Denied      int64        `json:"denied"`
	Keys        int64        `json:"keys"`
	KeysDenied  int64        `json:"keys_denied"`
	Worst       jsonWorst    `json:"worst"`
	LongestWait string       `json:"longest_wait"`
	Never       int64        `json:"never"`
	TopDenied   []jsonDenied `json:"top_denied"`
}

type jsonWorst struct {
	Interval string `json:"interval"`
	Admitted int64  `json:"admitted"`
	Bound    int64  `json:"bound"`
}

type jsonDenied struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

func printJSON(w io.Writer, r *result) error {
	report := jsonReport{
		Lines:         r.Lines,
		Skipped:       r.Skipped,
		Reordered:     r.Reordered,
		Late:          r.Late,
		Disagreements: r.Disagreements,
		Damaged:       []jsonDamage{},
	}
	for _, f := range r.Files {
		if f.Damage != nil {
			report.Damaged = append(report.Damaged, jsonDamage{f.Name, f.Damage.Error()})
		}
	}
	for _, p := range r.Policies {
		j := jsonPolicy{
			Policy:      p.Policy.String(),
			Requests:    r.Requests,
			Allowed:     p.Allowed,
			Denied:      p.Denied,
			Keys:        r.Keys,
			KeysDenied:  p.KeysDenied,
			Worst:       jsonWorst{p.Policy.Limit().Period.String(), p.Admitted, p.Bound},
			LongestWait: p.LongestWait.String(),
			Never:       p.Never,
			TopDenied:   []jsonDenied{},
		}
		for _, d := range p.TopDenied {
			j.TopDenied = append(j.TopDenied, jsonDenied(d))
		}
		report.Policies = append(report.Policies, j)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(report)
}
