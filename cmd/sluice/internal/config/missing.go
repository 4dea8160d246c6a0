package config

import (
	"net/http"

	"github.com/sluice-go/sluice/httplimit"
)

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

// caller returns the function that reads the field; nil if every request has the field.
func (f Field) caller() httplimit.OptionalKey {
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

// MayLack returns the fields of By that a request may lack.
func (r *Rule) MayLack() (fields []Field) {
	for _, f := range r.By {
		if f.caller() != nil {
			fields = append(fields, f)
		}
	}
	return fields
}

// MissingByIP reports whether the rule limits requests without a field by their address.
func (r *Rule) MissingByIP() bool {
	return len(r.MayLack()) > 0 && (r.Missing == MissingIP || r.Missing == "")
}
