// Package structured reads HTTP fields that are Lists of Strings, as RFC 9651 defines them.
// RateLimit and RateLimit-Policy are such fields.
package structured

import (
	"strconv"
	"strings"
)

// Item is a String in a List, with its parameters.
type Item struct {
	Name string // the String

	// Params has an int64 for a parameter that is an Integer, and a string for a String.
	// The value of every other type is true.
	Params map[string]any
}

// Integer returns the parameter with this key. It returns false if there is no such
// parameter or it is not an Integer.
func (i Item) Integer(key string) (int64, bool) {
	n, ok := i.Params[key].(int64)
	return n, ok
}

// ReadItems reads the lines of one field as a List. It returns the Strings and leaves out
// all other Items. It returns false if any part of the field is malformed, because RFC 9651
// requires that the whole field is ignored then.
func ReadItems(lines []string) (items []Item, ok bool) {
	r := reader{rest: strings.Trim(strings.Join(lines, ","), " ")}
	for r.rest != "" {
		value := r.member()
		params := r.params()
		if name, isString := value.(string); isString {
			items = append(items, Item{name, params})
		}
		r.span(" \t")
		if r.rest != "" {
			r.require(r.skip(","))
			r.span(" \t")
			r.require(r.rest != "")
		}
	}
	if r.malformed {
		return nil, false
	}
	return items, true
}

const (
	lower       = "abcdefghijklmnopqrstuvwxyz"
	letters     = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits      = "0123456789"
	keyBytes    = lower + digits + "_-.*"
	base64Bytes = letters + digits + "+/="
	tokenBytes  = letters + digits + "!#$%&'*+-.^_`|~:/"
)

// reader cuts a field off from the left. When the field turns out to be malformed, its rest
// becomes empty.
type reader struct {
	rest      string
	malformed bool
}

func (r *reader) require(ok bool) {
	if !ok {
		r.rest, r.malformed = "", true
	}
}

// skip cuts off the prefix, and reports whether the rest had it.
func (r *reader) skip(prefix string) (found bool) {
	r.rest, found = strings.CutPrefix(r.rest, prefix)
	return found
}

func (r *reader) startsWith(set string) bool {
	return r.rest != "" && strings.IndexByte(set, r.rest[0]) >= 0
}

// span cuts off all bytes up to the first that is not in the set.
func (r *reader) span(set string) string {
	before := r.rest
	r.rest = strings.TrimLeft(before, set)
	return before[:len(before)-len(r.rest)]
}

// member reads a member of a list without its parameters. The value of an Inner List is true.
func (r *reader) member() any {
	if !r.skip("(") {
		return r.bareItem()
	}
	for r.span(" "); !r.skip(")") && !r.malformed; {
		r.bareItem()
		r.params()
		spaces := r.span(" ")
		r.require(spaces != "" || strings.HasPrefix(r.rest, ")"))
	}
	return true
}

// params reads the parameters of a member. The map is nil if there are none.
func (r *reader) params() (params map[string]any) {
	for r.skip(";") {
		r.span(" ")
		r.require(r.startsWith("*" + lower))
		key := r.span(keyBytes)
		var value any = true
		if r.skip("=") {
			value = r.bareItem()
		}
		if params == nil {
			params = make(map[string]any)
		}
		params[key] = value
	}
	return params
}

// bareItem reads a Bare Item. Its value is true unless it is a String or an Integer.
func (r *reader) bareItem() any {
	switch {
	case r.skip(`"`):
		return r.text()
	case r.skip(`%"`):
		r.text()
	case r.skip("@"):
		_, isInteger := r.number().(int64)
		r.require(isInteger)
	case r.skip(":"):
		r.span(base64Bytes)
		r.require(r.skip(":"))
	case r.skip("?"):
		r.require(r.skip("0") || r.skip("1"))
	case r.startsWith("-" + digits):
		return r.number()
	default:
		r.require(r.startsWith("*" + letters))
		r.span(tokenBytes)
	}
	return true
}

// number reads an Integer or a Decimal. The value of a Decimal is true.
func (r *reader) number() any {
	sign := ""
	if r.skip("-") {
		sign = "-"
	}
	whole := r.span(digits)
	n, err := strconv.ParseInt(sign+whole, 10, 64)
	r.require(err == nil && len(whole) <= 15)
	if !r.skip(".") {
		return n
	}
	fraction := r.span(digits)
	r.require(len(whole) <= 12 && len(fraction) >= 1 && len(fraction) <= 3)
	return true
}

// text reads a String without its opening quote.
func (r *reader) text() any {
	var plain []byte
	for i := 0; i < len(r.rest); i++ {
		c := r.rest[i]
		switch {
		case c == '"':
			r.rest = r.rest[i+1:]
			return string(plain)
		case c == '\\' && i+1 < len(r.rest) && (r.rest[i+1] == '"' || r.rest[i+1] == '\\'):
			i++
			c = r.rest[i]
		case c < ' ' || c > '~' || c == '\\':
			r.require(false)
			return nil
		}
		plain = append(plain, c)
	}
	r.require(false)
	return nil
}
