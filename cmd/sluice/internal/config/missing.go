package config

import (
	"net/http"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluice-go/sluice/httplimit"
)

// Missing says what a rule does with a request that lacks one of the header, cookie or
// user that the rule goes by, by its word in the file.
type Missing string

// What a rule can do with such requests.
const (
	MissingIP    Missing = "ip"    // limit them by the client's address, which stands in for what is missing
	MissingShare Missing = "share" // give them one limit together
	MissingSkip  Missing = "skip"  // not apply
	MissingDeny  Missing = "deny"  // deny them
)

// String is what happens to requests without the field.
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

// caller finds what the field has in a request; nil if no request lacks such a field.
func (f Field) caller() httplimit.Caller {
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

func userOf(r *http.Request) (string, bool) {
	user, _, _ := r.BasicAuth()
	return user, user != ""
}

// MayLack are the fields of By that requests may lack.
func (r *Rule) MayLack() (fields []Field) {
	for _, f := range r.By {
		if f.caller() != nil {
			fields = append(fields, f)
		}
	}
	return fields
}

// MissingByIP reports whether the rule limits some requests by address in place of a field.
func (r *Rule) MissingByIP() bool {
	return len(r.MayLack()) > 0 && (r.Missing == MissingIP || r.Missing == "")
}

// lacks reports whether the request lacks one of them.
func (r *Rule) lacks(req *http.Request) bool {
	return slices.ContainsFunc(r.MayLack(), func(f Field) bool {
		_, found := f.caller()(req)
		return !found
	})
}

const wantMissing = "ip, share, skip or deny"

func (r *reader) missing(n ast.Node, at string) Missing {
	word, ok := text(n)
	switch m := Missing(word); m {
	case MissingIP, MissingShare, MissingSkip, MissingDeny:
		return m
	}
	known := []string{string(MissingIP), string(MissingShare), string(MissingSkip), string(MissingDeny)}
	hint := ""
	if ok {
		hint = didYouMean(word, known)
	}
	r.faults.add(n, at, "%s%s; want %s", isA(n), hint, wantMissing)
	return MissingIP
}

// missingHasEffect finds a missing in a rule whose fields no request lacks.
func (r *reader) missingHasEffect(n ast.Node, at string, rule *Rule) {
	if len(rule.MayLack()) == 0 {
		r.faults.add(n, at, "has no effect, because no request is without %s; want it in rules by user, header:NAME or cookie:NAME only", rule.ByString())
	}
}
