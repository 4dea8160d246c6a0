// Package rules reads and describes rule files, and replays their rules on access logs.
package rules

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/logs"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/trustedproxy"
)

// Together is the JSON of the counts of all rules together.
type Together struct {
	Requests    int64  `json:"requests"`
	Allowed     int64  `json:"allowed"`
	Denied      int64  `json:"denied"`
	LongestWait string `json:"longest_wait"`
	Never       int64  `json:"never"`

	Longest time.Duration `json:"-"` // LongestWait
}

func TogetherOf(r *backtest.RulesReport) Together {
	return Together{r.Requests, r.Allowed, r.Denied, r.LongestWait.String(), r.Never, r.LongestWait}
}

// Head begins the JSON of a rule.
type Head struct {
	Rule   string   `json:"rule"`
	By     []string `json:"by"`
	Cost   int64    `json:"cost"`
	Shadow bool     `json:"shadow"`
}

func HeadOf(r *config.Rule) Head {
	return Head{r.Name, readable.Texts(r.By), r.Cost.Units, r.Shadow}
}

// Subject replays the rules of a file. It makes an http.Request from each entry of the log.
type Subject struct {
	Name    string                       // of the file
	File    *config.File                 // without LeftOut
	LeftOut []config.Rule                // the rules that cannot be replayed: see WhyLeftOut
	Rules   []sluice.Rule[*http.Request] // of File
	Replay  *backtest.Rules[*http.Request]
	Keyed   config.Field // the header or cookie of --key-field; the zero Field: none
	Request http.Request
	answer  http.Response              // to Request, as logged
	client  func(*http.Request) string // returns the address of the client behind the proxies
	Proxied int64                      // requests logged with only addresses of trusted proxies
}

// NoEnd is why a policy whose units are held cannot be replayed.
const NoEnd = "access logs do not show when a request ends"

// WhyLeftOut says why a rule is left out: logs do not show when a request ends, or the command cannot give charges back.
func WhyLeftOut(r *config.Rule) string {
	why := "it has count, and this command cannot give charges back; sluice replay can"
	if r.HoldsUnits() {
		why = fmt.Sprintf("%s limits requests at the same time, and %s", r.Policy, NoEnd)
	}
	return fmt.Sprintf("rule %s is left out: %s", r.Name, why)
}

// NewSubject returns the subject of a file, without the rules that leaveOut reports. It refuses a file without a rule that can be
// replayed, and --key-field if no such rule needs it.
func NewSubject(name string, file *config.File, keyField string, leaveOut func(*config.Rule) bool) (*Subject, error) {
	s, err := NewSubjectOfSeveral(name, file, keyField, leaveOut)
	if err != nil {
		return nil, err
	}
	counting := slices.IndexFunc(s.LeftOut, func(r config.Rule) bool { return !r.HoldsUnits() })
	switch {
	case len(s.File.Rules) == 0 && counting >= 0:
		return nil, cli.Usagef("%s has no rule for this command: rule %s has count, which this command cannot replay (sluice replay can); add a rule without count", name, s.LeftOut[counting].Name)
	case len(s.File.Rules) == 0:
		return nil, cli.Usagef("%s has only rules for requests at the same time, and %s; add a rule with a rate, such as gcra 100/m", name, NoEnd)
	case keyField != "" && s.Keyed.Kind == "":
		if len(s.LeftOut) > 0 {
			name += " that can be replayed"
		}
		return nil, cli.Usagef("--key-field has no effect: no rule of %s is by a header or a cookie; leave it out", name)
	}
	return s, nil
}

// LeftOutNames returns the names of the rules that are left out.
func (s *Subject) LeftOutNames() []string {
	names := []string{} // nil would be null in JSON
	for i := range s.LeftOut {
		names = append(names, s.LeftOut[i].Name)
	}
	return names
}

// NewSubjectOfSeveral returns the subject of one of several files, which may have no rule that can be replayed. Another file may
// need --key-field.
func NewSubjectOfSeveral(name string, file *config.File, keyField string, leaveOut func(*config.Rule) bool) (*Subject, error) {
	replayed := *file
	replayed.Rules = nil
	s := &Subject{Name: name, File: &replayed}
	for _, r := range file.Rules {
		if leaveOut(&r) {
			s.LeftOut = append(s.LeftOut, r)
		} else {
			replayed.Rules = append(replayed.Rules, r)
		}
	}
	if err := s.checkReplayable(keyField); err != nil {
		return nil, err
	}
	logged := replayed
	logged.Forwarded = false // logs have addresses in the form of X-Forwarded-For
	s.Rules = logged.HTTPRules(0, nil)
	var err error
	var policies []algo.Policy
	for _, r := range replayed.Rules {
		policies = append(policies, r.Policy)
	}
	if s.client, err = (httplimit.ClientIP{Trusted: file.Trusted, IPv6Bits: 128}).Key(); err != nil {
		return nil, err
	}
	if s.Replay, err = backtest.NewRules(s.Rules, policies); err == nil && replayed.NeedsResponse() {
		s.Replay.Settle = withAnswer
	}
	return s, err
}

// withAnswer returns the request with the response that is logged, if there is one.
func withAnswer(r *http.Request) (*http.Request, bool) {
	if r.Response == nil {
		return r, false
	}
	return httplimit.WithResponse(r, httplimit.Response{Status: r.Response.StatusCode}), true
}

// checkReplayable refuses rules that need data that logs do not have.
func (s *Subject) checkReplayable(keyField string) error {
	for _, r := range s.File.Rules {
		if r.Cost.Bytes {
			return cli.Usagef("%s: rule %s has cost: bytes, and access logs do not have the size of request bodies; replay a copy of the file without the rule, or with a number as its cost", s.Name, r.Name)
		}
		for _, f := range r.By {
			switch {
			case fieldOf[f.Kind] != accesslog.Key:
				continue
			case keyField == "":
				return cli.Usagef("%s: rule %s is by %v, which access logs do not have; name the member of JSON lines that holds it with --key-field, or replay a copy of the file without the rule", s.Name, r.Name, f)
			case s.Keyed.Kind != "" && s.Keyed != f:
				return cli.Usagef("%s: rules are by %v and by %v, and --key-field names only one member; replay a copy of the file without rule %s", s.Name, s.Keyed, f, r.Name)
			}
			s.Keyed = f
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

func (s *Subject) Fields() (read, named accesslog.Fields) {
	for _, r := range s.File.Rules {
		for _, f := range r.By {
			named |= fieldOf[f.Kind]
		}
		if len(r.Methods)+len(r.Except.Methods) > 0 {
			named |= accesslog.Method
		}
		if len(r.Paths)+len(r.Except.Paths) > 0 {
			named |= accesslog.Path
		}
		if len(r.Except.Addresses) > 0 {
			named |= accesslog.IP
		}
		if len(r.Count) > 0 {
			named |= accesslog.Status
		}
		if r.MissingByIP() {
			read |= accesslog.IP
		}
	}
	if len(s.File.Trusted) > 0 {
		read |= accesslog.Forwarded
	}
	return read | named, named
}

// Instead describes what the rules do with requests without the field.
func (s *Subject) Instead(f accesslog.Fields) string {
	var words []string
	for _, r := range s.File.Rules {
		for _, by := range r.MayLack() {
			if fieldOf[by.Kind] == f {
				words = append(words, fmt.Sprintf("under rule %s they %v", r.Name, r.Missing))
			}
		}
	}
	if f == accesslog.Status {
		return "rules with count charge them"
	}
	return cmp.Or(strings.Join(words, "; "), "for the rules it is empty")
}

func (s *Subject) Add(ctx context.Context, e *accesslog.Entry) error {
	s.Fill(e)
	_, err := s.Replay.Add(ctx, e.Time, &s.Request)
	return err
}

// CountProxied counts the request if it is logged with only addresses of trusted proxies.
func (s *Subject) CountProxied(r *http.Request) {
	if len(s.File.Trusted) > 0 && s.fromProxy(r.RemoteAddr) && s.fromProxy(strings.TrimSuffix(s.client(r), "/128")) {
		s.Proxied++
	}
}

// Fill sets the request to that of the entry, and counts it if it comes from a trusted proxy.
func (s *Subject) Fill(e *accesslog.Entry) {
	target := &url.URL{Path: string(e.Path)}
	if len(e.Path) > 0 { // otherwise no rule needs it
		if u, err := url.ParseRequestURI(target.Path); err == nil { // like net/http
			target = u
		}
	}
	s.Request = http.Request{
		Method:     string(e.Method),
		URL:        target,
		Host:       string(e.Host),
		RemoteAddr: string(e.IP),
		Header:     http.Header{},
	}
	if len(e.Forwarded) > 0 {
		s.Request.Header.Set("X-Forwarded-For", string(e.Forwarded))
	}
	if len(e.User) > 0 {
		user := strings.ReplaceAll(string(e.User), ":", "%3A") // a colon would end the name
		s.Request.SetBasicAuth(user, "")
	}
	switch {
	case len(e.Key) == 0:
	case s.Keyed.Kind == config.Header:
		s.Request.Header.Set(s.Keyed.Name, string(e.Key))
	case s.Keyed.Kind == config.Cookie:
		s.Request.Header.Set("Cookie", s.Keyed.Name+"="+string(e.Key))
	}
	if status, err := strconv.Atoi(string(e.Status)); err == nil {
		s.answer = http.Response{StatusCode: status}
		s.Request.Response = &s.answer // on a server it has no other use
	}
	s.CountProxied(&s.Request)
}

func (s *Subject) fromProxy(remote string) bool {
	addr, err := netip.ParseAddr(remote)
	return err == nil && trustedproxy.Contains(s.File.Trusted, addr)
}

// Describe describes the log and the file.
func (s *Subject) Describe(log *logs.Summary) string {
	text := log.Head(fmt.Sprintf("%s of %s", readable.Plural(int64(len(s.File.Rules)), "rule"), readable.Graphic(s.Name)), s.Instead)
	for i := range s.LeftOut {
		text += WhyLeftOut(&s.LeftOut[i]) + "\n"
	}
	text += s.Estimates()
	if s.Proxied > 0 {
		text += fmt.Sprintf("%s logged with the address of a trusted proxy instead of the client's; configure the server to log the address from X-Forwarded-For\n", readable.Plural(s.Proxied, "request"))
	}
	return text
}

// Estimates names the rules whose actual cost logs do not have.
func (s *Subject) Estimates() (text string) {
	for i := range s.File.Rules {
		if r := &s.File.Rules[i]; r.Cost.Actual != "" {
			text += fmt.Sprintf("rule %s is replayed with its estimate of %s: access logs do not have the header %s of the response\n", r.Name, readable.Plural(r.Cost.Units, "unit"), r.Cost.Actual)
		}
	}
	return text
}
