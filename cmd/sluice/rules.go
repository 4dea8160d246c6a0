package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ruleSubject replays the rules of a file. It makes an http.Request from each entry of the log.
type ruleSubject struct {
	name    string // of the file
	file    *config.File
	rules   []sluice.Rule[*http.Request] // of the file
	replay  *replay.Rules[*http.Request]
	keyed   config.Field // the header or cookie of --key-field; the zero Field: none
	request http.Request
	client  func(*http.Request) string // returns the address of the client behind the proxies
	proxied int64                      // requests logged with only addresses of trusted proxies
}

// newRuleSubject returns the subject of a file. It refuses --key-field if no rule of the file needs it.
func newRuleSubject(name string, file *config.File, keyField string) (*ruleSubject, error) {
	s, err := newRuleSubjectOfSeveral(name, file, keyField)
	if err == nil && keyField != "" && s.keyed.Kind == "" {
		err = usagef("--key-field has no effect: no rule of %s is by a header or a cookie; leave it out", name)
	}
	return s, err
}

// newRuleSubjectOfSeveral returns the subject of one of several files. Another file may need
// --key-field.
func newRuleSubjectOfSeveral(name string, file *config.File, keyField string) (*ruleSubject, error) {
	s := &ruleSubject{name: name, file: file}
	if err := s.checkReplayable(keyField); err != nil {
		return nil, err
	}
	logged := *file
	logged.Forwarded = false // logs have addresses in the form of X-Forwarded-For
	var err error
	if s.rules, err = logged.HTTPRules(0); err != nil {
		return nil, err
	}
	var policies []algo.Policy
	for _, r := range file.Rules {
		policies = append(policies, r.Policy)
	}
	if s.client, err = (httplimit.ClientIP{Trusted: file.Trusted, IPv6Bits: 128}).Key(); err != nil {
		return nil, err
	}
	s.replay, err = replay.NewRules(s.rules, policies)
	return s, err
}

// checkReplayable refuses rules that need data that logs do not have.
func (s *ruleSubject) checkReplayable(keyField string) error {
	for _, r := range s.file.Rules {
		if r.Cost.Bytes {
			return usagef("%s: rule %s has cost: bytes, and access logs do not have the size of request bodies; replay a copy of the file without the rule, or with a number as its cost", s.name, r.Name)
		}
		for _, f := range r.By {
			switch {
			case fieldOf[f.Kind] != accesslog.Key:
				continue
			case keyField == "":
				return usagef("%s: rule %s is by %v, which access logs do not have; name the member of JSON lines that holds it with --key-field, or replay a copy of the file without the rule", s.name, r.Name, f)
			case s.keyed.Kind != "" && s.keyed != f:
				return usagef("%s: rules are by %v and by %v, and --key-field names only one member; replay a copy of the file without rule %s", s.name, s.keyed, f, r.Name)
			}
			s.keyed = f
		}
	}
	return nil
}

// fieldOf has the field of an entry that holds the field of a request.
var fieldOf = map[config.Kind]accesslog.Fields{
	config.IP:     accesslog.IP,
	config.User:   accesslog.User,
	config.Method: accesslog.Method,
	config.Path:   accesslog.Path,
	config.Host:   accesslog.Host,
	config.Header: accesslog.Key,
	config.Cookie: accesslog.Key,
}

func (s *ruleSubject) fields() (read, named accesslog.Fields) {
	for _, r := range s.file.Rules {
		for _, f := range r.By {
			named |= fieldOf[f.Kind]
		}
		if len(r.Methods) > 0 {
			named |= accesslog.Method
		}
		if len(r.Paths) > 0 {
			named |= accesslog.Path
		}
		if r.MissingByIP() {
			read |= accesslog.IP
		}
	}
	if len(s.file.Trusted) > 0 {
		read |= accesslog.Forwarded
	}
	return read | named, named
}

// instead describes what the rules do with requests without the field.
func (s *ruleSubject) instead(f accesslog.Fields) string {
	var words []string
	for _, r := range s.file.Rules {
		for _, by := range r.MayLack() {
			if fieldOf[by.Kind] == f {
				words = append(words, fmt.Sprintf("under rule %s they %v", r.Name, r.Missing))
			}
		}
	}
	return cmp.Or(strings.Join(words, "; "), "for the rules it is empty")
}

func (s *ruleSubject) add(ctx context.Context, e *accesslog.Entry) error {
	s.fill(e)
	_, err := s.replay.Add(ctx, e.Time, &s.request)
	return err
}

// countProxied counts the request if it is logged with only addresses of trusted proxies.
func (s *ruleSubject) countProxied(r *http.Request) {
	if len(s.file.Trusted) > 0 && s.fromProxy(r.RemoteAddr) && s.fromProxy(strings.TrimSuffix(s.client(r), "/128")) {
		s.proxied++
	}
}

// fill sets the request to that of the entry, and counts it if it comes from a trusted proxy.
func (s *ruleSubject) fill(e *accesslog.Entry) {
	target := &url.URL{Path: string(e.Path)}
	if len(e.Path) > 0 { // otherwise no rule needs it
		if u, err := url.ParseRequestURI(target.Path); err == nil { // like net/http
			target = u
		}
	}
	s.request = http.Request{
		Method:     string(e.Method),
		URL:        target,
		Host:       string(e.Host),
		RemoteAddr: string(e.IP),
		Header:     http.Header{},
	}
	if len(e.Forwarded) > 0 {
		s.request.Header.Set("X-Forwarded-For", string(e.Forwarded))
	}
	if len(e.User) > 0 {
		user := strings.ReplaceAll(string(e.User), ":", "%3A") // a colon would end the name
		s.request.SetBasicAuth(user, "")
	}
	switch {
	case len(e.Key) == 0:
	case s.keyed.Kind == config.Header:
		s.request.Header.Set(s.keyed.Name, string(e.Key))
	case s.keyed.Kind == config.Cookie:
		s.request.Header.Set("Cookie", s.keyed.Name+"="+string(e.Key))
	}
	s.countProxied(&s.request)
}

func (s *ruleSubject) fromProxy(remote string) bool {
	addr, err := netip.ParseAddr(remote)
	return err == nil && trustedproxy.Contains(s.file.Trusted, addr)
}

const together = "all together" // the name of the table's last row

func (s *ruleSubject) report(top int, log *logSummary) report {
	r := s.replay.Report(top)
	j := jsonRulesReport{Proxied: s.proxied, Together: jsonTogetherOf(&r)}
	j.jsonLog, j.jsonProblems = log.json()
	p := &picture{
		title:    "Allowed and denied requests under each rule",
		subtitle: fmt.Sprintf("%s, %s, rules of %s", baseName(log.name), log.span(), baseName(s.name)),
		timeline: &r.Timeline,
	}
	for i := range r.Rules {
		o, rule := &r.Rules[i], &s.file.Rules[i]
		j.Rules = append(j.Rules, jsonRule{
			Rule: rule.Name, By: texts(rule.By), Cost: rule.Cost.Units, Shadow: rule.Shadow, Alone: o.Alone,
			jsonPolicy: jsonOf(&o.Outcome, o.Requests, o.Keys),
		})
		p.addPanel(ruleName(rule)+", "+ruleText(rule), o.Allowed, o.Denied)
	}
	p.addPanel(together, r.Allowed, r.Denied)
	return report{s.tables(&r, log), j, p}
}

func (s *ruleSubject) tables(r *replay.RulesReport, log *logSummary) string {
	w := new(strings.Builder)
	log.head(w, fmt.Sprintf("%s of %s", plural(int64(len(r.Rules)), "rule"), graphic(s.name)), s.instead)
	s.printProxied(w)
	fmt.Fprintln(w)
	var legend [][2]string
	rows := [][]any{{"rule", "requests", "allowed", "denied", "share denied", "only by it", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait"}}
	for i := range r.Rules {
		o, rule := &r.Rules[i], &s.file.Rules[i]
		legend = append(legend, [2]string{ruleName(rule), ruleText(rule)})
		alone := any(o.Alone)
		if o.Shadow {
			alone = "-"
		}
		row := []any{ruleName(rule), o.Requests, o.Allowed, o.Denied, share(o.Denied, o.Requests), alone}
		rows = append(rows, append(row, boundCells(&o.Outcome, o.Keys)...))
	}
	rows = append(rows, []any{together, r.Requests, r.Allowed, r.Denied, share(r.Denied, r.Requests),
		"", "", "", "", "", "", formatWait(r.LongestWait, r.Never)})
	printLegend(w, legend)
	printTable(w, rows)
	for i, o := range r.Rules {
		printDenials(w, &s.file.Rules[i], ruleName(&s.file.Rules[i]), o.TopDenied)
	}
	return w.String()
}

func (s *ruleSubject) printProxied(w io.Writer) {
	if s.proxied > 0 {
		fmt.Fprintf(w, "%s logged with the address of a trusted proxy instead of the client's; configure the server to log the address from X-Forwarded-For\n", plural(s.proxied, "request"))
	}
}

// printDenials prints the keys that a rule denies most. A rule without fields has only one key.
func printDenials(w io.Writer, rule *config.Rule, name string, most []replay.Denials) {
	if len(rule.By) == 0 {
		return
	}
	rows := [][]any{{"denied most by " + name + ", " + rule.ByString(), "denied"}}
	for _, d := range most {
		rows = append(rows, []any{shorten(printable(d.Key, len(rule.By))), d.Denied})
	}
	printTable(w, rows)
}

// printable escapes a key, and returns - for an empty key. Keys of several fields are already
// quoted.
func printable(key string, fields int) string {
	if key == "" {
		return "-"
	}
	if quoted := strconv.QuoteToGraphic(key); fields == 1 && strings.Contains(quoted, `\`) {
		return quoted[1 : len(quoted)-1]
	}
	return key
}
