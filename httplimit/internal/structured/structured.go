// Package structured reads HTTP fields that are Lists of Strings, as RFC 9651 defines them.
// RateLimit and RateLimit-Policy are such fields.
package structured

import (
	"regexp"
	"strconv"
	"strings"
)

// Item is a String in a List, with its parameters.
type Item struct {
	Name   string         // the String
	Params map[string]any // an int64 for an Integer, a string for a String, and true for every other type
}

// The grammar of RFC 9651. The Bare Items are, in this order: String, Display String, Decimal, Date
// or Integer, Byte Sequence, Boolean, Token.
const (
	text      = `"(?:[ !#-\[\]-~]|\\["\\])*"`
	bareItem  = `%?` + text + `|-?\d{1,12}\.\d{1,3}|@?-?\d{1,15}|:[A-Za-z\d+/=]*:|\?[01]|[A-Za-z*][\w!#$%&'*+.^|~:/\x60-]*`
	key       = `[a-z*][a-z\d_.*-]*`
	params    = `(?:; *` + key + `(?:=(?:` + bareItem + `))?)*`
	item      = `(?:` + bareItem + `)` + params
	innerList = `\( *(?:` + item + `(?: +` + item + `)*)? *\)`
)

var (
	member = regexp.MustCompile(`^(` + bareItem + `|` + innerList + `)(` + params + `)[ \t]*(,[ \t]*|$)`)
	param  = regexp.MustCompile(`; *(` + key + `)(?:=(` + bareItem + `))?`)
)

// ReadItems reads the lines of one field as a List. It returns the Strings and leaves out
// all other Items. It returns false if any part of the field is malformed, because RFC 9651
// requires that the whole field is ignored then.
func ReadItems(lines []string) (items []Item, ok bool) {
	for rest := strings.Trim(strings.Join(lines, ","), " "); rest != ""; {
		m := member.FindStringSubmatch(rest)
		if m == nil || m[0] == rest && m[3] != "" { // malformed, or a comma at the end
			return nil, false
		}
		rest = rest[len(m[0]):]
		if name, isString := valueOf(m[1]).(string); isString {
			items = append(items, Item{name, make(map[string]any)})
			for _, p := range param.FindAllStringSubmatch(m[2], -1) {
				items[len(items)-1].Params[p[1]] = valueOf(p[2])
			}
		}
	}
	return items, true
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// valueOf returns the value of a Bare Item as in Item.Params.
func valueOf(item string) any {
	if strings.HasPrefix(item, `"`) {
		return unescape.Replace(item[1 : len(item)-1])
	}
	if n, err := strconv.ParseInt(item, 10, 64); err == nil {
		return n
	}
	return true
}
