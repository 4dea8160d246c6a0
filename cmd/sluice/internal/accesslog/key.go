package accesslog

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/fieldlist"
)

// fieldNames has the name of each field at the index of its bit; Forwarded has none.
var fieldNames = [...]string{"ip", "user", "method", "path", "host", "key", "", "status"}

// String returns the names of the fields, joined by +.
func (f Fields) String() string {
	var words []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 && name != "" {
			words = append(words, name)
		}
	}
	return strings.Join(words, "+")
}

// Keyer makes the key of an entry from some of its fields. Only one goroutine may use it.
type Keyer struct {
	fields []Fields // none: all entries have the same key
	key    []byte   // for reuse
}

// ParseKeyer parses the names of fields joined by +, such as "ip" or "ip+path". The names are
// ip, user, method, path, host, status, and key for the member that Options.KeyField names.
// "everything" gives all entries one key.
func ParseKeyer(spec string) (*Keyer, error) {
	fields, err := fieldlist.Parse(spec, func(word string, before []Fields) (Fields, error) {
		bit := slices.Index(fieldNames[:], word)
		switch {
		case word == "" || bit < 0:
			return 0, fieldlist.Unknown(word, fieldNames[:], "ip, user, method, path, host, status or key"+fieldlist.Several)
		case slices.Contains(before, 1<<bit):
			return 0, fmt.Errorf("%s is there twice; write it once", word)
		}
		return 1 << bit, nil
	})
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	return &Keyer{fields: fields}, nil
}

// String returns the spec that ParseKeyer parses.
func (k *Keyer) String() string { return fieldlist.Format(k.fields) }

// Named returns the fields of the spec.
func (k *Keyer) Named() Fields {
	var set Fields
	for _, f := range k.fields {
		set |= f
	}
	return set
}

// Fields returns the fields that the key needs, for [Options.Fields], and those of the spec. The key needs IP too if it
// replaces a missing user or key.
func (k *Keyer) Fields() (read, named Fields) {
	read, named = k.Named(), k.Named()
	if read&(User|Key) != 0 {
		read |= IP
	}
	return read, named
}

// Key returns the key of e: its fields, separated by spaces. It is valid until the next call. An empty field is -.
// An empty user or key is replaced by "ip:" and the IP, if there is one, because a server also
// limits such a request by its address. Different fields never give the same key. Keys are
// printable: a byte that is not printable, a backslash, and in a key of several fields a space,
// is written as \xNN.
func (k *Keyer) Key(e *Entry) []byte {
	if len(k.fields) == 0 {
		return []byte(fieldlist.Everything)
	}
	k.key = k.key[:0]
	for i, f := range k.fields {
		if i > 0 {
			k.key = append(k.key, ' ')
		}
		text := *e.texts()[bits.TrailingZeros(uint(f))]
		switch {
		case f != User && f != Key:
		case len(text) == 0 && len(e.IP) > 0:
			k.key, text = append(k.key, "ip:"...), e.IP
		case bytes.HasPrefix(text, []byte("ip:")): // escape the i, so that no name imitates an IP
			k.key, text = append(k.key, `\x69`...), text[1:]
		}
		k.key = appendText(k.key, text, len(k.fields) > 1)
	}
	return k.key
}

func appendText(dst, text []byte, joined bool) []byte {
	if len(text) == 0 {
		return append(dst, '-')
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if strconv.IsPrint(r) && r != '\\' && (r != utf8.RuneError || n > 1) && (r != ' ' || !joined) {
			dst = append(dst, text[:n]...)
		} else {
			for _, c := range text[:n] {
				dst = fmt.Appendf(dst, `\x%02x`, c)
			}
		}
		text = text[n:]
	}
	return dst
}
