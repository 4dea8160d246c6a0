package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
)

// File is a limits.yaml that was read without a fault.
type File struct {
	Rules []Rule // at least one
	// Trusted are the addresses of one's own proxies. Of a request that comes from
	// one of them the client is in X-Forwarded-For. It is empty and not nil if the file
	// says that there is no proxy.
	Trusted   []netip.Prefix
	Forwarded bool // the proxies write the field Forwarded (RFC 7239) in its place
	IPv6Bits  int  // how much of an IPv6 address is one client, from 32 to 128; 0 means 64
}

// LacksTrusted returns the rules that limit by address although the file does not say
// which proxies are trusted. Behind a proxy, all clients share one limit under them.
func (f *File) LacksTrusted() (names []string) {
	if f.Trusted != nil {
		return nil
	}
	for i := range f.Rules {
		if f.Rules[i].byIP() {
			names = append(names, f.Rules[i].Name)
		}
	}
	return names
}

func (r *Rule) byIP() bool {
	return r.MissingByIP() || slices.ContainsFunc(r.By, func(f Field) bool { return f.Kind == IP })
}

// Rule is one limit.
type Rule struct {
	Name   string      // letters, digits, - and _; no two rules have the same
	Policy algo.Policy // its String is the spec
	By     []Field     // what is limited; none: one limit for everything
	// Missing is for requests that lack a field of By; empty: MissingIP. It has no effect
	// where MayLack is empty.
	Missing Missing
	Cost    Cost
	Shadow  bool // decided and reported, but not enforced
	// Methods and Paths are the requests that the rule is for; none: all. See
	// [Rule.For]. Methods are in capital letters.
	Methods []string
	Paths   []string
}

// Field is a part of a request that a rule limits by.
type Field struct {
	Kind Kind
	Name string // of the header, in its canonical form, or of the cookie; else empty
}

// Kind is a kind of field, by its word in the file.
type Kind string

// The kinds of fields.
const (
	IP     Kind = "ip"     // the client's address, as httplimit.ClientIP finds it
	User   Kind = "user"   // the name in Authorization: Basic, which nobody has checked
	Method Kind = "method" // GET, POST and so on
	Path   Kind = "path"   // decoded and cleaned, without the query and parameters behind a ;
	Host   Kind = "host"   // as the client says, in small letters and without the port
	Header Kind = "header" // header:NAME, the first value of that field
	Cookie Kind = "cookie" // cookie:NAME
)

// String is the field as the file has it, such as ip or header:X-Api-Key.
func (f Field) String() string {
	if f.Kind == Header || f.Kind == Cookie {
		return string(f.Kind) + ":" + f.Name
	}
	return string(f.Kind)
}

// Cost is what one call takes of a rule.
type Cost struct {
	Units int64 // from 1; 0 if Bytes
	Bytes bool  // as many units as the request has bytes of content
}

// String is the cost as the file has it: a number, or bytes.
func (c Cost) String() string {
	if c.Bytes {
		return "bytes"
	}
	return strconv.FormatInt(c.Units, 10)
}

// ByString is the fields joined by +, or "everything" if there are none.
func (r *Rule) ByString() string {
	if len(r.By) == 0 {
		return everything
	}
	var words []string
	for _, f := range r.By {
		words = append(words, f.String())
	}
	return strings.Join(words, "+")
}
