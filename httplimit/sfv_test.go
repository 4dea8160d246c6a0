package httplimit_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// item is an Item of RFC 9651 whose value is a String. Parameters are int64,
// string, bool, or []byte.
type item struct {
	name   string
	params map[string]any
}

// parseItems reads a List of such items as section 4.2 of RFC 9651 does, and fails
// wherever that fails. Of bare items it knows Integers, Strings, Booleans and Byte
// Sequences; anything else, the fields that are tested have no business to hold.
// It is a reading of the RFC of its own, which shares nothing with the package.
func parseItems(lines []string) ([]item, error) {
	s := &scanner{strings.Trim(strings.Join(lines, ","), " ")}
	var list []item
	for s.rest != "" {
		it, err := s.item()
		if err != nil {
			return nil, fmt.Errorf("%w at %q", err, s.rest)
		}
		list = append(list, it)
		s.rest = strings.TrimLeft(s.rest, " \t")
		if s.rest == "" {
			return list, nil
		}
		if !s.eat(',') {
			return nil, fmt.Errorf("no comma at %q", s.rest)
		}
		if s.rest = strings.TrimLeft(s.rest, " \t"); s.rest == "" {
			return nil, errors.New("a comma at the end")
		}
	}
	return list, nil
}

type scanner struct{ rest string }

func (s *scanner) eat(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) while(allowed string) string {
	end := len(s.rest) - len(strings.TrimLeft(s.rest, allowed))
	text := s.rest[:end]
	s.rest = s.rest[end:]
	return text
}

func (s *scanner) item() (item, error) {
	name, err := s.text()
	it := item{name, make(map[string]any)}
	for err == nil && s.eat(';') {
		s.rest = strings.TrimLeft(s.rest, " ")
		const lower = "abcdefghijklmnopqrstuvwxyz"
		if s.rest == "" || !strings.Contains(lower+"*", s.rest[:1]) {
			return it, errors.New("no key")
		}
		key := s.while(lower + "0123456789_-.*")
		it.params[key] = true
		if s.eat('=') {
			it.params[key], err = s.bare()
		}
	}
	return it, err
}

func (s *scanner) bare() (any, error) {
	switch {
	case s.rest == "":
		return nil, errors.New("no value")
	case s.rest[0] == '"':
		return s.text()
	case s.rest[0] == ':':
		return s.bytes()
	case s.rest[0] == '?':
		s.eat('?')
		if s.eat('1') {
			return true, nil
		}
		if s.eat('0') {
			return false, nil
		}
		return nil, errors.New("no boolean")
	}
	return s.integer()
}

func (s *scanner) integer() (int64, error) {
	sign := int64(1)
	if s.eat('-') {
		sign = -1
	}
	digits := s.while("0123456789")
	if len(digits) == 0 || len(digits) > 15 {
		return 0, errors.New("no integer")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return sign * n, err
}

func (s *scanner) text() (string, error) {
	if !s.eat('"') {
		return "", errors.New("no string")
	}
	var text []byte
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return string(text), nil
		case c == '\\':
			if s.rest == "" || s.rest[0] != '"' && s.rest[0] != '\\' {
				return "", errors.New("bad escape")
			}
			c = s.rest[0]
			s.rest = s.rest[1:]
		case c <= 0x1f || c >= 0x7f:
			return "", errors.New("not printable ASCII")
		}
		text = append(text, c)
	}
	return "", errors.New("string not closed")
}

func (s *scanner) bytes() ([]byte, error) {
	s.eat(':')
	text, rest, found := strings.Cut(s.rest, ":")
	if !found {
		return nil, errors.New("bytes not closed")
	}
	s.rest = rest
	return base64.StdEncoding.Strict().DecodeString(text)
}

func TestTheParserIsStrict(t *testing.T) {
	list, err := parseItems([]string{`"a\"\\b";q=-1;w=999999999999999; pk=:AQI=:;f;g=?0 ,` + "\t" + `"c"`, `"d";qu="x"`})
	require.NoError(t, err)
	require.Equal(t, []item{
		{`a"\b`, map[string]any{"q": int64(-1), "w": int64(999999999999999), "pk": []byte{1, 2}, "f": true, "g": false}},
		{"c", map[string]any{}},
		{"d", map[string]any{"qu": "x"}},
	}, list)
	for _, bad := range []string{
		`a`, `"a`, `"a",`, `"a" "b"`, `"a";`, `"a";Q=1`, `"a";q=`, `"a";q=1000000000000000`, `"a";q=1.5`, `"a";q=+1`,
		`"é"`, "\"\x00\"", `"\a"`, `"a";pk=:AQI:`, `"a";pk=:AQI=`, `"a" ;q=1`, `"a";q=1,,"b"`, `"a";q =1`, `"a";f=?2`, "\t\"a\"", `,"a"`,
	} {
		_, err := parseItems([]string{bad})
		require.Error(t, err, bad)
	}
}
