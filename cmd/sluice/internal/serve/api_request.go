package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-go/sluice/cmd/sluice/internal/jsontext"
)

const (
	maxBody = 64 << 10 // bytes of a request
	maxKey  = 4 << 10  // bytes of a key, decoded

	exampleRequest = `{"key":"user:42","cost":3,"limit":"api"}`
)

// readRequest reads a request, or returns the problem with it.
func readRequest(w http.ResponseWriter, r *http.Request) (DecisionRequest, *problem) {
	if p := checkMedia(r); p != nil {
		return DecisionRequest{}, p
	}
	if r.URL.RawQuery != "" {
		return DecisionRequest{}, invalid("", "the URL has a query, which this service does not read; send everything in the body, such as %s", exampleRequest)
	}
	if r.ContentLength > maxBody {
		return DecisionRequest{}, bodyProblem(w)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return DecisionRequest{}, readProblem(w, err)
	}
	return decodeRequest(body)
}

// checkMedia accepts the Content-Type that curl -d sends by default, so that people can use
// curl. Web pages can send this type to other origins too, but fromPage refuses them.
func checkMedia(r *http.Request) *problem {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return mediaProblem("the body has the Content-Encoding %q; send it without encoding", encoding)
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	switch {
	case err != nil || media != "application/json" && media != "application/x-www-form-urlencoded":
		return mediaProblem("the body has the Content-Type %q; want application/json", given)
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return mediaProblem("the body has the charset %q; want utf-8", charset)
	}
	return nil
}

func readProblem(w http.ResponseWriter, err error) *problem {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return bodyProblem(w)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem("slow", "the body did not arrive in time; send it faster")
	}
	return malformed(0, "the body ended early; want %s", exampleRequest)
}

func bodyProblem(w http.ResponseWriter) *problem {
	w.Header().Set("Connection", "close") // do not read the rest
	return newProblem("too-large", "the body has more than %d bytes", maxBody)
}

// decodeRequest decodes the body. It refuses what encoding/json accepts, because each of these
// mistakes would apply a wrong limit: names in another letter case, duplicate names, and
// strings with lone surrogates, which would all become the same key.
func decodeRequest(body []byte) (DecisionRequest, *problem) {
	if p := checkSyntax(body); p != nil {
		return DecisionRequest{}, p
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, _ := d.Token(); open != json.Delim('{') {
		return DecisionRequest{}, invalid("", "the body is %s; want an object such as %s", kindOf(body), exampleRequest)
	}
	var m members
	for d.More() {
		name, _ := d.Token() // the syntax is known to be right
		var value json.RawMessage
		_ = d.Decode(&value)
		if p := m.read(name.(string), value); p != nil {
			return DecisionRequest{}, p
		}
	}
	return m.request()
}

func checkSyntax(body []byte) *problem {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return malformed(0, "the body is empty; want %s", exampleRequest)
	}
	if !utf8.Valid(body) {
		return malformedIn(body, invalidUTF8(body), "the body is not UTF-8; send a key that is not UTF-8 as key_base64")
	}
	var whole json.RawMessage
	err := json.Unmarshal(body, &whole)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &syntax):
		return malformed(0, "%v", err)
	case strings.HasPrefix(err.Error(), "unexpected end"):
		return malformedIn(body, len(body), "the JSON ends early; want an object such as "+exampleRequest)
	}
	return malformedIn(body, int(syntax.Offset)-1, err.Error()+"; want an object such as "+exampleRequest)
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// malformedIn adds the line and the column, both from 1, to the offset.
func malformedIn(body []byte, offset int, what string) *problem {
	before := body[:min(max(offset, 0), len(body))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return malformed(offset, "line %d, column %d: %s", line, column, what)
}

// members has the members of a request that were read so far.
type members struct {
	seen  []string
	key   []byte
	cost  int64
	names []string
}

const memberNames = "key or key_base64, cost and limit"

func (m *members) read(name string, value []byte) *problem {
	if slices.Contains(m.seen, name) {
		return invalid(name, "%s: the member is there twice; send it once", name)
	}
	m.seen = append(m.seen, name)
	switch name {
	case "key":
		return m.readKey(value)
	case "key_base64":
		return m.readBase64(value)
	case "cost":
		return m.readCost(value)
	case "limit":
		return m.readLimit(value)
	}
	return invalid(name, "unknown member %q; want %s", name, memberNames)
}

func (m *members) has(name string) bool { return slices.Contains(m.seen, name) }

// request returns the complete request. A missing key is an error, not an empty key: otherwise a
// program that forgets the key would let all its clients share one limit.
func (m *members) request() (DecisionRequest, *problem) {
	switch {
	case !m.has("key") && !m.has("key_base64"):
		return DecisionRequest{}, invalid("key", `key is missing; want %s, or "" if all requests share the limit`, exampleRequest)
	case m.has("key") && m.has("key_base64"):
		return DecisionRequest{}, invalid("key_base64", "both key and key_base64 are there; send one of them")
	case len(m.key) > maxKey:
		p := newProblem("too-large", "the key has %d bytes; want at most %d", len(m.key), maxKey)
		p.Field = m.seen[slices.IndexFunc(m.seen, isKey)]
		return DecisionRequest{}, p
	}
	return DecisionRequest{Key: string(m.key), Limits: m.names, Cost: max(m.cost, 1)}, nil
}

func isKey(name string) bool { return name == "key" || name == "key_base64" }

func (m *members) readKey(value []byte) *problem {
	text, ok := stringOf(value)
	if !ok {
		return wrong("key", value, `a string such as "user:42", or key_base64 for a key that is not UTF-8`)
	}
	m.key = []byte(text)
	return nil
}

func (m *members) readBase64(value []byte) (p *problem) {
	text, ok := stringOf(value)
	if ok {
		var err error
		m.key, err = base64.StdEncoding.Strict().DecodeString(text)
		ok = err == nil && !strings.ContainsAny(text, "\r\n") // the decoder ignores line ends
	}
	if !ok {
		return wrong("key_base64", value, `a string in standard base64 with its padding, such as "dXNlcjo0Mg=="`)
	}
	return nil
}

func (m *members) readCost(value []byte) *problem {
	cost, ok := wholeNumber(string(value))
	if !ok || cost < 1 {
		return wrong("cost", value, fmt.Sprintf("a whole number from 1 to %d", math.MaxInt64))
	}
	m.cost = cost
	return nil
}

// wholeNumber parses a whole JSON number. Some languages write whole numbers as 3.0, which is
// exact below 2^53.
func wholeNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func (m *members) readLimit(value []byte) *problem {
	if name, ok := stringOf(value); ok {
		m.names = []string{name}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 { // none, or null
		return wrong("limit", value, `a limit's name such as "api", or a list of names such as ["api","daily"]; leave it out to use all limits`)
	}
	named := make(map[string]bool, len(list))
	for _, element := range list {
		name, ok := stringOf(element)
		switch {
		case !ok:
			return wrong("limit", element, `names in the list, such as ["api","daily"]`)
		case named[name]:
			return invalid("limit", "limit: %q is named twice; name it once", name)
		}
		named[name] = true
		m.names = append(m.names, name)
	}
	return nil
}

// stringOf returns the value of a JSON string. It refuses lone surrogates, because package json
// replaces each by U+FFFD, so different keys would become equal.
func stringOf(value []byte) (text string, ok bool) {
	if value[0] != '"' || hasLoneSurrogate(string(value)) || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}

// hasLoneSurrogate reports whether a JSON string has an escape of half a character.
func hasLoneSurrogate(value string) bool {
	for {
		i := strings.IndexByte(value, '\\')
		if i < 0 {
			return false
		}
		r, n := jsontext.Escape(value[i:])
		if utf16.IsSurrogate(r) {
			return true
		}
		value = value[i+max(n, 1):] // n is 0 for invalid JSON, which the decoder refuses
	}
}

// wrong returns the problem of a member with an invalid value.
func wrong(name string, value []byte, want string) *problem {
	return invalid(name, "%s: want %s, got %s", name, want, shown(value))
}

// shown returns a short value as written, and the kind of any other value.
func shown(value []byte) string {
	kind := kindOf(value)
	switch {
	case len(value) > 40, kind == "an object", kind == "a list":
		return kind
	}
	return string(value)
}

func kindOf(value []byte) string {
	switch bytes.TrimLeft(value, " \t\r\n")[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
