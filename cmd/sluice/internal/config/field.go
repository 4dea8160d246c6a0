package config

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/errtext"
)

const fieldWords = "ip, user, method, path, host, header:NAME or cookie:NAME"

func fieldNames() []string {
	return []string{string(IP), string(User), string(Method), string(Path), string(Host)}
}

// everything is the word for an empty list of fields.
const everything = "everything"

// ParseFields reads the names of fields joined by +, such as ip or user+header:X-Team. For
// "everything" it returns no fields. The error has the unknown word and the accepted ones.
func ParseFields(by string) ([]Field, error) {
	if strings.TrimSpace(by) == everything {
		return nil, nil
	}
	var fields []Field
	words := strings.Split(by, "+")
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == "" && len(words) > 1 {
			return nil, fmt.Errorf("%s: a field is missing before or after a +; write for instance ip+path", errtext.Quote(by))
		}
		field, err := parseField(word)
		if errors.Is(err, errNoField) {
			return nil, fmt.Errorf("%w, or several joined by +, such as ip+path, or everything", err)
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(fields, field) {
			return nil, fmt.Errorf("%v is there twice; write it once", field)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// errNoField is the beginning of the error for an unknown word.
var errNoField = errors.New("no field")

func parseField(word string) (Field, error) {
	kind, name, named := strings.Cut(word, ":")
	switch k := Kind(kind); k {
	case IP, User, Method, Path, Host:
		if !named {
			return Field{Kind: k}, nil
		}
		return Field{}, fmt.Errorf("%s takes no name, got %q; want %[1]s", kind, word)
	case Header, Cookie:
		return namedField(k, name)
	}
	return Field{}, fmt.Errorf("%w %s%s; want %s",
		errNoField, errtext.Quote(word), didYouMean(word, fieldNames()), fieldWords)
}

func namedField(kind Kind, name string) (Field, error) {
	if !isToken(name) {
		return Field{}, fmt.Errorf("%s is not a valid %s name; want %s:NAME, such as %s",
			errtext.Quote(name), kind, kind, Field{kind, exampleName(kind)})
	}
	if kind == Cookie {
		return Field{kind, name}, nil
	}
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "X-Forwarded-For", "Forwarded":
		return Field{}, fmt.Errorf("any client can forge the header %s; want ip, with the addresses of your proxies in trusted", name)
	case "Host":
		return Field{}, fmt.Errorf("the header Host has its own field; want host")
	}
	return Field{kind, name}, nil
}

func exampleName(kind Kind) string {
	if kind == Cookie {
		return "session"
	}
	return "X-Api-Key"
}

// isToken reports whether s can be the name of a header, a cookie or a method (RFC 9110,
// section 5.6.2).
func isToken(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r))
	})
}
