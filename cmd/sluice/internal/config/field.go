package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/errtext"
)

const fieldWords = "ip, user, method, path, host, header:NAME or cookie:NAME"

// everything is the word for an empty list of fields.
const everything = "everything"

// ParseFields reads the names of fields joined by +, such as ip or user+header:X-Team. For
// "everything" it returns an empty list, not nil. The error has the unknown word and the accepted
// ones.
func ParseFields(by string) (fields []Field, err error) {
	if strings.TrimSpace(by) == everything {
		return []Field{}, nil
	}
	words := strings.Split(by, "+")
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == "" && len(words) > 1 {
			return nil, fmt.Errorf("%s: a field is missing before or after a +; write for instance ip+path", errtext.Quote(by))
		}
		field, err := parseField(word, fieldWords+", or several joined by +, such as ip+path, or everything", fields)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// parseField reads the name of a field that is not among the others.
func parseField(word, want string, others []Field) (f Field, err error) {
	known := []string{string(IP), string(User), string(Method), string(Path), string(Host)}
	kind, name, named := strings.Cut(word, ":")
	switch f.Kind = Kind(kind); {
	case f.Kind == Header || f.Kind == Cookie:
		f, err = namedField(f.Kind, name)
	case !slices.Contains(known, kind):
		err = fmt.Errorf("no field %s%s; want %s", errtext.Quote(word), didYouMean(word, known), want)
	case named:
		err = fmt.Errorf("%s takes no name, got %q; want %[1]s", kind, word)
	}
	if err == nil && slices.Contains(others, f) {
		err = fmt.Errorf("%v is there twice; write it once", f)
	}
	return f, err
}

func namedField(kind Kind, name string) (Field, error) {
	example := "X-Api-Key"
	if kind == Cookie {
		example = "session"
	}
	if !isToken(name) {
		return Field{}, fmt.Errorf("%s is not a valid %s name; want %[2]s:NAME, such as %[2]s:%s", errtext.Quote(name), kind, example)
	}
	if kind == Header {
		name = http.CanonicalHeaderKey(name)
	}
	f := Field{kind, name}
	switch f.String() {
	case "header:X-Forwarded-For", "header:Forwarded":
		return f, fmt.Errorf("any client can forge the header %s; want ip, with the addresses of your proxies in trusted", name)
	case "header:Host":
		return f, fmt.Errorf("the header Host has its own field; want host")
	}
	return f, nil
}

// isToken reports whether s can be the name of a header, a cookie or a method (RFC 9110,
// section 5.6.2).
func isToken(s string) bool { return s != "" && hasOnly(s, "!#$%&'*+-.^_`|~") }
