// Package config reads limits.yaml, the file of rate limiting rules. "sluice check --help"
// describes the file.
//
// Parsing is strict: unknown fields are errors. [Parse] reports all errors of a file at
// once, each with its line, its field and the accepted values.
//
// [File.HTTPRules] makes the rules for HTTP requests. The server and the replay of a log
// both use them, so they decide alike.
package config

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/fieldlist"
	"github.com/sluice-go/sluice/httplimit"
)

// File is the content of a limits.yaml without errors.
type File struct {
	Rules []Rule // at least one
	// Trusted has the addresses of the user's own proxies. If a request comes from one of
	// them, X-Forwarded-For has the client's address. It is nil if the file has no field
	// trusted, and empty if the file has trusted: [].
	Trusted   []netip.Prefix
	Forwarded bool // the proxies write Forwarded (RFC 7239) instead of X-Forwarded-For
	IPv6Bits  int  // the prefix length that identifies an IPv6 client, 32 to 128; 0 means 64
}

// LacksTrusted returns the rules that limit by address although the file does not say
// which proxies are trusted. Behind a proxy, all requests that are limited by ip share one limit under them.
func (f *File) LacksTrusted() (names []string) {
	if f.Trusted != nil {
		return nil
	}
	for _, r := range f.Rules {
		if r.MissingByIP() || slices.Contains(r.By, Field{Kind: IP}) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Rule is one limit.
type Rule struct {
	Name   string      // letters, digits, - and _; unique in a file
	Policy algo.Policy // its String is the spec
	By     []Field     // the fields of the key; none: all requests share one limit
	// Missing says what to do with a request that lacks a field of By; empty: MissingIP. It
	// has no effect if MayLack returns no fields.
	Missing Missing
	Cost    Cost
	Shadow  bool // decided and reported, but not enforced
	// Count has the statuses of the responses that are charged in the end. Other responses give the charge back; none: all
	// responses are charged.
	Count []Statuses
	// Methods and Paths select the requests that the rule applies to; none: all requests. See
	// [Rule.For]. Methods are in upper case.
	Methods []string
	Paths   []string
	Except  Except // requests that the rule does not apply to; Parse adds those of the file
}

// Except selects requests: those that one of its lists has.
type Except struct {
	Addresses []netip.Prefix // of clients, as httplimit.ClientIP finds them
	Methods   []string       // in upper case
	Paths     []string
}

// Texts returns the entries of all lists, as in the file.
func (e *Except) Texts() (texts []string) {
	for _, p := range e.Addresses {
		texts = append(texts, p.String())
	}
	return slices.Concat(texts, e.Methods, e.Paths)
}

// Field is a part of a request that belongs to a rule's key.
type Field struct {
	Kind Kind
	Name string // of the header, in its canonical form, or of the cookie; else empty
}

// Kind is a kind of field. Its value is the word in the file.
type Kind string

// The kinds of fields.
const (
	IP     Kind = "ip"     // the client's address, as httplimit.ClientIP finds it
	User   Kind = "user"   // the name in Authorization: Basic; the password is not checked
	Method Kind = "method" // GET, POST and so on
	Path   Kind = "path"   // decoded and cleaned, without the query and without parameters after a ;
	Host   Kind = "host"   // as the client sends it, in lower case and without the port; empty if a request has none
	Header Kind = "header" // header:NAME, the first value of that field
	Cookie Kind = "cookie" // cookie:NAME
)

// String returns the field as in the file, such as ip or header:X-Api-Key.
func (f Field) String() string {
	if f.Kind == Header || f.Kind == Cookie {
		return string(f.Kind) + ":" + f.Name
	}
	return string(f.Kind)
}

// Cost is the cost of one request under a rule.
type Cost struct {
	Units  int64  // from 1; 0 if Bytes
	Bytes  bool   // the size of the request body in bytes
	Actual string // the header of the response that has the actual cost, which replaces Units; empty: none
}

// Statuses is a range of statuses.
type Statuses struct{ First, Last int }

// String returns the word in the file, such as 401 or 5xx.
func (s Statuses) String() string {
	if s.First == s.Last {
		return strconv.Itoa(s.First)
	}
	return fmt.Sprintf("%dxx", s.First/100)
}

// Counts reports whether a response with the status is charged in the end.
func (r *Rule) Counts(status int) bool {
	return len(r.Count) == 0 || slices.ContainsFunc(r.Count, func(s Statuses) bool { return s.First <= status && status <= s.Last })
}

// NeedsResponse reports whether the cost of a request is known only after its response.
func (r *Rule) NeedsResponse() bool { return len(r.Count) > 0 || r.Cost.Actual != "" }

// NeedsResponse reports whether a rule does.
func (f *File) NeedsResponse() bool {
	return slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.NeedsResponse() })
}

// HoldsUnits reports whether a request holds units of the rule until its response has ended, as under inflight 20 ttl=30s.
func (r *Rule) HoldsUnits() bool {
	_, ok := r.Policy.(algo.Holder)
	return ok
}

// ByString returns the fields joined by +, or "everything" if there are none.
func (r *Rule) ByString() string { return fieldlist.Format(r.By) }

// Missing says what a rule does with a request that lacks the rule's header, cookie or user.
// Its value is the word in the file.
type Missing string

// The values of Missing.
const (
	MissingIP    Missing = "ip"    // limit the request by the client's address
	MissingShare Missing = "share" // let all such requests share one limit
	MissingSkip  Missing = "skip"  // do not apply the rule
	MissingDeny  Missing = "deny"  // deny the request
)

// String completes a sentence about requests without the field, such as "are denied".
func (m Missing) String() string {
	switch m {
	case MissingShare:
		return "share one limit"
	case MissingSkip:
		return "are not limited by this rule"
	case MissingDeny:
		return "are denied"
	}
	return "are limited by ip"
}

// optionalKey returns the function that reads the field; nil if every request has the field.
func (f Field) optionalKey() httplimit.OptionalKey {
	switch f.Kind {
	case User:
		return userOf
	case Header:
		return httplimit.KeyByHeader(f.Name)
	case Cookie:
		return httplimit.KeyByCookie(f.Name)
	}
	return nil
}

// userOf returns the user as lenient servers read it. Many ignore missing padding and all bytes that are no base64.
func userOf(r *http.Request) (string, bool) {
	credentials, _ := httplimit.KeyByHeader("Authorization")(r)
	encoded, isBasic := strings.CutPrefix(credentials, "basic ")
	text, _ := base64.RawStdEncoding.DecodeString(strings.Map(toBase64, encoded)) // up to the end, if that is a half byte
	user, _, found := strings.Cut(string(text), ":")
	return user, isBasic && found && user != ""
}

// toBase64 returns a digit of base64, also for one of the URL alphabet. It returns -1 for other bytes.
func toBase64(r rune) rune {
	switch {
	case r == '-':
		return '+'
	case r == '_':
		return '/'
	case HasOnly(string(r), "+/"):
		return r
	}
	return -1
}

// MayLack returns the fields of By that a request may lack.
func (r *Rule) MayLack() (fields []Field) {
	for _, f := range r.By {
		if f.optionalKey() != nil {
			fields = append(fields, f)
		}
	}
	return fields
}

// MissingByIP reports whether the rule limits requests without a field by their address.
func (r *Rule) MissingByIP() bool {
	return len(r.MayLack()) > 0 && (r.Missing == MissingIP || r.Missing == "")
}
