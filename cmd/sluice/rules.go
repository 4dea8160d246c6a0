package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// ruleSubject replays the rules of a file. It makes an http.Request from each entry of the log.
type ruleSubject struct {
	name    string // of the file
	file    *config.File
	replay  *replay.Rules[*http.Request]
	needs   accesslog.Fields
	keyed   config.Field // the header or cookie of --key-field; the zero Field: none
	request http.Request
	client  func(*http.Request) string // returns the address of the client behind the proxies
	proxied int64                      // requests logged with only addresses of trusted proxies
}

func newRuleSubject(name string, file *config.File, keyField string) (*ruleSubject, error) {
	s := &ruleSubject{name: name, file: file}
	if err := s.replayable(keyField); err != nil {
		return nil, err
	}
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	var policies []algo.Policy
	for i := range file.Rules {
		policies = append(policies, file.Rules[i].Policy)
		s.needs |= needs(&file.Rules[i])
	}
	if len(file.Trusted) > 0 {
		s.needs |= accesslog.Forwarded
	}
	if s.client, err = (httplimit.ClientIP{Trusted: file.Trusted, IPv6Bits: 128}).Key(); err != nil {
		return nil, err
	}
	s.replay, err = replay.NewRules(rules, policies)
	return s, err
}

// rules returns the rules of the file. The log has addresses in the form of X-Forwarded-For, even
// if the proxies write Forwarded.
func (s *ruleSubject) rules() ([]compose.Rule[*http.Request], error) {
	file := *s.file
	file.Forwarded = false
	return file.HTTPRules(0)
}

// replayable refuses rules that need data that logs do not have.
func (s *ruleSubject) replayable(keyField string) error {
	for i := range s.file.Rules {
		r := &s.file.Rules[i]
		if r.Cost.Bytes {
			return usagef("%s: rule %s has cost: bytes, and access logs do not have the size of request bodies; replay a copy of the file without the rule, or with a number as its cost", s.name, r.Name)
		}
		for _, f := range r.By {
			if err := s.find(f, r.Name, keyField); err != nil {
				return err
			}
		}
	}
	if keyField != "" && s.keyed.Kind == "" {
		return usagef("--key-field has no effect: no rule of %s is by a header or a cookie; leave it out", s.name)
	}
	return nil
}

// find checks whether --key-field supplies the header or cookie of a rule.
func (s *ruleSubject) find(f config.Field, rule, keyField string) error {
	switch {
	case f.Kind != config.Header && f.Kind != config.Cookie:
		return nil
	case keyField == "":
		return usagef("%s: rule %s is by %v, which access logs do not have; name the member of JSON lines that holds it with --key-field, or replay a copy of the file without the rule", s.name, rule, f)
	case s.keyed.Kind != "" && s.keyed != f:
		return usagef("%s: rules are by %v and by %v, and --key-field names only one member; replay a copy of the file without rule %s", s.name, s.keyed, f, rule)
	}
	s.keyed = f
	return nil
}

// needs returns the fields of an entry that a rule reads.
func needs(r *config.Rule) (set accesslog.Fields) {
	for _, f := range r.By {
		set |= fieldOf(f.Kind)
	}
	if len(r.Methods) > 0 {
		set |= accesslog.Method
	}
	if len(r.Paths) > 0 {
		set |= accesslog.Path
	}
	return set
}

func fieldOf(k config.Kind) accesslog.Fields {
	switch k {
	case config.IP:
		return accesslog.IP
	case config.User:
		return accesslog.User
	case config.Method:
		return accesslog.Method
	case config.Path:
		return accesslog.Path
	case config.Host:
		return accesslog.Host
	}
	return accesslog.Key // a header or a cookie
}

func (s *ruleSubject) named() accesslog.Fields { return s.needs }

// fields includes IP if a rule limits by address in place of a missing field.
func (s *ruleSubject) fields() accesslog.Fields {
	for i := range s.file.Rules {
		if r := &s.file.Rules[i]; r.MissingByIP() {
			return s.needs | accesslog.IP
		}
	}
	return s.needs
}

// instead describes what the rules do with requests without the field.
func (s *ruleSubject) instead(f accesslog.Fields) string {
	var words []string
	for i := range s.file.Rules {
		r := &s.file.Rules[i]
		for _, by := range r.MayLack() {
			if fieldOf(by.Kind) == f {
				words = append(words, fmt.Sprintf("under rule %s they %v", r.Name, r.Missing))
			}
		}
	}
	if len(words) == 0 {
		return "for the rules it is empty"
	}
	return strings.Join(words, "; ")
}

func (s *ruleSubject) add(ctx context.Context, e *accesslog.Entry) error {
	s.fill(e)
	if s.fromProxy(s.request.RemoteAddr) && s.fromProxy(strings.TrimSuffix(s.client(&s.request), "/128")) {
		s.proxied++
	}
	return s.replay.Add(ctx, e.Time, &s.request)
}

// fill sets the request to that of the entry.
func (s *ruleSubject) fill(e *accesslog.Entry) {
	s.request = http.Request{
		Method:     string(e.Method),
		URL:        target(string(e.Path)),
		Host:       string(e.Host),
		RemoteAddr: string(e.IP),
		Header:     http.Header{},
	}
	if len(e.Forwarded) > 0 {
		s.request.Header.Set("X-Forwarded-For", string(e.Forwarded))
	}
	if len(e.User) > 0 {
		s.request.SetBasicAuth(string(e.User), "")
	}
	switch {
	case len(e.Key) == 0:
	case s.keyed.Kind == config.Header:
		s.request.Header.Set(s.keyed.Name, string(e.Key))
	default:
		s.request.Header.Set("Cookie", s.keyed.Name+"="+string(e.Key))
	}
}

// target parses a request target like net/http. If that fails, the target is the path.
func target(path string) *url.URL {
	if path == "" {
		return new(url.URL)
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return &url.URL{Path: path}
	}
	return u
}

func (s *ruleSubject) fromProxy(remote string) bool {
	if len(s.file.Trusted) == 0 {
		return false
	}
	addr, err := netip.ParseAddr(remote)
	return err == nil && trustedproxy.Contains(s.file.Trusted, addr)
}

func (s *ruleSubject) report(top int, from logSummary) report {
	return &ruleResult{s.replay.Report(top), from, s}
}

// ruleResult is the report of rules.
type ruleResult struct {
	replay.RulesReport
	logSummary
	of *ruleSubject
}

const together = "all together" // the name of the table's last row

func (r *ruleResult) tables(w io.Writer) {
	rules := r.of.file.Rules
	r.head(w, fmt.Sprintf("%s of %s", plural(int64(len(rules)), "rule"), r.of.name))
	r.printWarnings(w)
	fmt.Fprintln(w)
	l := &legend{}
	for i := range rules {
		l.add(ruleName(&rules[i]), ruleText(&rules[i]))
	}
	l.print(w)
	r.printRules(w)
	r.printTopDenied(w)
}

// printWarnings reports data that the log does not have.
func (r *ruleResult) printWarnings(w io.Writer) {
	r.printMissing(w, r.of.instead)
	if r.of.proxied > 0 {
		fmt.Fprintf(w, "%s logged with the address of a trusted proxy instead of the client's; configure the server to log the address from X-Forwarded-For\n", plural(r.of.proxied, "request"))
	}
}

func (r *ruleResult) printRules(w io.Writer) {
	t := newTable(w, "rule", "requests", "allowed", "denied", "share denied", "only by it", "keys", "keys denied",
		"most in a period", "limit", "bound", "longest wait")
	for i := range r.Rules {
		o := &r.Rules[i]
		alone := any(o.Alone)
		if o.Shadow {
			alone = "-"
		}
		t.row(ruleName(&r.of.file.Rules[i]), o.Requests, o.Allowed, o.Denied, share(o.Denied, o.Requests), alone, o.Keys, o.KeysDenied,
			o.Admitted, limitOf(o.Policy), o.Bound, formatWait(o.LongestWait, o.Never))
	}
	t.row(together, r.Requests, r.Allowed, r.Denied, share(r.Denied, r.Requests), "", "", "", "", "", "", formatWait(r.LongestWait, r.Never))
	t.print()
}

func (r *ruleResult) printTopDenied(w io.Writer) {
	for i := range r.Rules {
		o, rule := &r.Rules[i], &r.of.file.Rules[i]
		if len(o.TopDenied) == 0 || len(rule.By) == 0 {
			continue
		}
		t := newTable(w, "denied most by "+ruleName(rule)+", "+rule.ByString(), "denied")
		for _, d := range o.TopDenied {
			t.row(shorten(printable(d.Key, len(rule.By))), d.Denied)
		}
		t.print()
	}
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

func (r *ruleResult) picture() *picture {
	p := &picture{
		title:    "Allowed and denied requests under each rule",
		subtitle: fmt.Sprintf("%s, %s, rules of %s", shorten(filepath.Base(r.logSummary.name)), r.span(), shorten(filepath.Base(r.of.name))),
		timeline: &r.Timeline,
	}
	for i := range r.Rules {
		o, rule := &r.Rules[i], &r.of.file.Rules[i]
		p.panels = append(p.panels, panel{ruleName(rule) + ", " + ruleText(rule), countsOf(o.Allowed, o.Denied)})
	}
	p.panels = append(p.panels, panel{together, countsOf(r.Allowed, r.Denied)})
	return p
}
