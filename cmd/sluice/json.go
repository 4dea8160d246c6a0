package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
)

// The types below are the output of --json, which the help documents.
type jsonReport struct {
	Lines         int64        `json:"lines"`
	Skipped       int64        `json:"skipped"`
	Reordered     int64        `json:"reordered"`
	Late          int64        `json:"late"`
	Disagreements int64        `json:"disagreements"`
	Policies      []jsonPolicy `json:"policies"`
	Damaged       []jsonDamage `json:"damaged"`
	Missing       jsonMissing  `json:"missing"`
}

type jsonMissing map[string]int64 // by the field's name

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
	Part     string `json:"part,omitempty"` // of all(...), the part whose period is interval
}

type jsonDenied struct {
	Key    string `json:"key"`
	Denied int64  `json:"denied"`
}

func printJSON(w io.Writer, report any) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(report); err != nil {
		return err
	}
	_, err := w.Write(escapeControls(text.Bytes()))
	return err
}

// escapeControls escapes control characters that encoding/json leaves unescaped, because
// terminals interpret some of them.
func escapeControls(text []byte) []byte {
	var out []byte
	for _, c := range string(text) {
		if 0x7f <= c && c <= 0x9f {
			out = fmt.Appendf(out, `\u%04x`, c)
			continue
		}
		out = utf8.AppendRune(out, c)
	}
	return out
}

func (r *result) json() any {
	report := jsonReport{
		Lines:         r.Lines,
		Skipped:       r.Skipped,
		Reordered:     r.Reordered,
		Late:          r.Late,
		Disagreements: r.Disagreements,
		Damaged:       r.damages(),
		Missing:       r.missingJSON(),
	}
	for i := range r.Policies {
		report.Policies = append(report.Policies, jsonOf(&r.Policies[i], r.Requests, r.Keys))
	}
	return report
}

func jsonOf(o *replay.Outcome, requests, keys int64) jsonPolicy {
	return jsonPolicy{
		Policy:      o.Policy.String(),
		Requests:    requests,
		Allowed:     o.Allowed,
		Denied:      o.Denied,
		Keys:        keys,
		KeysDenied:  o.KeysDenied,
		Worst:       worstOf(o),
		LongestWait: o.LongestWait.String(),
		Never:       o.Never,
		TopDenied:   topDenied(o),
	}
}

func worstOf(o *replay.Outcome) jsonWorst {
	worst := jsonWorst{Interval: o.Policy.Limit().Period.String(), Admitted: o.Admitted, Bound: o.Bound}
	if stack, ok := o.Policy.(*compose.Stack); ok && stack.Len() > 1 {
		worst.Part = stack.Part(0).String()
	}
	return worst
}

func (p *logSummary) damages() []jsonDamage {
	all := []jsonDamage{}
	for _, f := range p.Damaged {
		all = append(all, jsonDamage{f.Name, f.Err.Error()})
	}
	return all
}

func topDenied(o *replay.Outcome) []jsonDenied {
	top := []jsonDenied{}
	for _, d := range o.TopDenied {
		top = append(top, jsonDenied(d))
	}
	return top
}

type jsonRulesReport struct {
	Lines     int64        `json:"lines"`
	Skipped   int64        `json:"skipped"`
	Reordered int64        `json:"reordered"`
	Late      int64        `json:"late"`
	Proxied   int64        `json:"proxied"`
	Together  jsonTogether `json:"together"`
	Rules     []jsonRule   `json:"rules"`
	Damaged   []jsonDamage `json:"damaged"`
	Missing   jsonMissing  `json:"missing"`
}

type jsonTogether struct {
	Requests    int64  `json:"requests"`
	Allowed     int64  `json:"allowed"`
	Denied      int64  `json:"denied"`
	LongestWait string `json:"longest_wait"`
	Never       int64  `json:"never"`
}

type jsonRule struct {
	Rule   string   `json:"rule"`
	By     []string `json:"by"`
	Cost   int64    `json:"cost"`
	Shadow bool     `json:"shadow"`
	Alone  int64    `json:"alone"`
	jsonPolicy
}

func (r *ruleResult) json() any {
	report := jsonRulesReport{
		Lines:     r.Lines,
		Skipped:   r.Skipped,
		Reordered: r.Reordered,
		Late:      r.Late,
		Proxied:   r.of.proxied,
		Together:  jsonTogether{r.Requests, r.Allowed, r.Denied, r.LongestWait.String(), r.Never},
		Damaged:   r.damages(),
		Missing:   r.missingJSON(),
	}
	for i := range r.Rules {
		report.Rules = append(report.Rules, r.jsonRule(i))
	}
	return report
}

func (r *ruleResult) jsonRule(i int) jsonRule {
	o, rule := &r.Rules[i], &r.of.file.Rules[i]
	j := jsonRule{Rule: rule.Name, By: []string{}, Cost: rule.Cost.Units, Shadow: rule.Shadow, Alone: o.Alone,
		jsonPolicy: jsonOf(&o.Outcome, o.Requests, o.Keys)}
	for _, f := range rule.By {
		j.By = append(j.By, f.String())
	}
	return j
}
