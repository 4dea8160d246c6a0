package observe

import (
	"mime"
	"strconv"
	"strings"
)

// prefersJSON reports whether what is accepted (RFC 9110, section 12.5.1) speaks for
// application/json rather than text/plain. Between equals it is the one named.
func prefersJSON(accept []string) bool {
	json := preferenceFor("application", "json", accept)
	text := preferenceFor("text", "plain", accept)
	if json.quality != text.quality {
		return json.quality > text.quality
	}
	return json.quality > 0 && json.precision == named
}

// preference is what the most precise range that covers a type says of it.
type preference struct {
	quality   float64 // from 0, not at all, to 1
	precision int
}

const (
	anything = 1 // */*
	anyOf    = 2 // text/*
	named    = 3
)

func preferenceFor(kind, subtype string, accept []string) (p preference) {
	for _, item := range strings.Split(strings.Join(accept, ","), ",") {
		media, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		precision := 0
		switch media {
		case "*/*":
			precision = anything
		case kind + "/*":
			precision = anyOf
		case kind + "/" + subtype:
			precision = named
		}
		if precision > p.precision {
			p = preference{quality(parameters), precision}
		}
	}
	return p
}

func quality(parameters map[string]string) float64 {
	q, err := strconv.ParseFloat(parameters["q"], 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 1
	}
	return q
}
