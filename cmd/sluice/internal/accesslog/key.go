package accesslog

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice/internal/errtext"
)

// keyNames are the words of a key's spec, in the order of messages.
var keyNames = [...]struct {
	name  string
	field Fields
}{
	{"ip", IP},
	{"user", User},
	{"method", Method},
	{"path", Path},
	{"host", Host},
	{"status", Status},
	{"key", Key},
}

// String returns the names of the fields, joined by +.
func (f Fields) String() string {
	var words []string
	for _, n := range keyNames {
		if f&n.field != 0 {
			words = append(words, n.name)
		}
	}
	return strings.Join(words, "+")
}

// Keyer makes the key of an entry from some of its fields. It is immutable.
type Keyer struct {
	fields []Fields // none: all entries have the same key
}

// everything is the spec without fields, and its only key.
const everything = "everything"

// ParseKeyer parses the names of fields joined by +, such as "ip" or "ip+path". The names are
// ip, user, method, path, host, status, and key for the member that Options.KeyField names.
// "everything" gives all entries one key. The error has the unknown word.
func ParseKeyer(spec string) (*Keyer, error) {
	k := new(Keyer)
	if strings.TrimSpace(spec) == everything {
		return k, nil
	}
	words := strings.Split(spec, "+")
	for _, word := range words {
		if strings.TrimSpace(word) == "" && len(words) > 1 {
			return nil, fmt.Errorf("accesslog: %s: a field is missing before or after a +; write for instance ip+path", errtext.Quote(spec))
		}
		field, err := parseField(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if k.Named()&field != 0 {
			return nil, fmt.Errorf("accesslog: key %q names %s twice", spec, strings.TrimSpace(word))
		}
		k.fields = append(k.fields, field)
	}
	return k, nil
}

func parseField(word string) (Fields, error) {
	for _, n := range keyNames {
		if n.name == word {
			return n.field, nil
		}
	}
	return 0, fmt.Errorf("accesslog: no field %q; want ip, user, method, path, host, status or key, or several joined by +, such as ip+path, or everything", word)
}

// String returns the spec that ParseKeyer parses.
func (k *Keyer) String() string {
	if len(k.fields) == 0 {
		return everything
	}
	var words []string
	for _, f := range k.fields {
		words = append(words, f.String())
	}
	return strings.Join(words, "+")
}

// Named returns the fields of the spec.
func (k *Keyer) Named() Fields {
	var set Fields
	for _, f := range k.fields {
		set |= f
	}
	return set
}

// Fields returns the fields that the key needs, for [Options.Fields]. They include IP if it
// replaces a missing user or key.
func (k *Keyer) Fields() Fields {
	set := k.Named()
	if set&(User|Key) != 0 {
		set |= IP
	}
	return set
}

// AppendKey appends the key of e to dst: its fields, separated by spaces. An empty field is -.
// An empty user or key is replaced by "ip:" and the IP, if there is one, because a server also
// limits such a request by its address. Different fields never give the same key. Keys are
// printable: a byte that is not printable, a backslash, and in a key of several fields a space,
// is written as \xNN.
func (k *Keyer) AppendKey(dst []byte, e *Entry) []byte {
	if len(k.fields) == 0 {
		return append(dst, everything...)
	}
	for i, f := range k.fields {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendField(dst, e, f, len(k.fields) > 1)
	}
	return dst
}

func appendField(dst []byte, e *Entry, f Fields, joined bool) []byte {
	switch f {
	case User:
		return appendCaller(dst, e.User, e.IP, joined)
	case Key:
		return appendCaller(dst, e.Key, e.IP, joined)
	case Status:
		if e.Status > 0 {
			return strconv.AppendInt(dst, int64(e.Status), 10)
		}
		return append(dst, '-')
	}
	return appendText(dst, *e.texts()[bits.TrailingZeros(uint(f))], joined)
}

const ipTag = "ip:"

// appendCaller appends the name of a caller, or its IP if there is no name. A name cannot
// imitate an IP, because the first byte of a name that begins with "ip:" is escaped.
func appendCaller(dst, name, ip []byte, joined bool) []byte {
	switch {
	case len(name) == 0 && len(ip) > 0:
		return appendText(append(dst, ipTag...), ip, joined)
	case bytes.HasPrefix(name, []byte(ipTag)):
		return appendText(appendHex(dst, name[:1]), name[1:], joined)
	}
	return appendText(dst, name, joined)
}

func appendText(dst, text []byte, joined bool) []byte {
	if len(text) == 0 {
		return append(dst, '-')
	}
	for i, c := range text {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return appendEscaped(append(dst, text[:i]...), text[i:], joined)
		}
	}
	return append(dst, text...)
}

func appendEscaped(dst, text []byte, joined bool) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		plain := strconv.IsPrint(r) && r != '\\' && (r != utf8.RuneError || n > 1) && (r != ' ' || !joined)
		if plain {
			dst = append(dst, text[:n]...)
		} else {
			dst = appendHex(dst, text[:n])
		}
		text = text[n:]
	}
	return dst
}

func appendHex(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range text {
		dst = append(dst, '\\', 'x', digits[c>>4], digits[c&15])
	}
	return dst
}
