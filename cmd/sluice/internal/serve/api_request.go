package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	maxBody = 64 << 10 // bytes of a request
	maxKey  = 4 << 10  // bytes of a key, decoded

	maxShown = 40 // bytes of an invalid value in a problem

	exampleRequest = `{"key":"user:42","cost":3,"rule":"api"}`
)

// readRequest reads a request, or returns the problem with it.
func readRequest(w http.ResponseWriter, r *http.Request) (decisionRequest, *problem) {
	if p := checkMedia(r.Header); p != nil {
		return decisionRequest{}, p
	}
	if r.URL.RawQuery != "" {
		return decisionRequest{}, invalid("", "the URL has a query, which this service does not read; send everything in the body, such as %s", exampleRequest)
	}
	var body []byte
	var err error = new(http.MaxBytesError)
	if r.ContentLength <= maxBody {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	switch {
	case err == nil:
		return decodeRequest(body)
	case errors.As(err, new(*http.MaxBytesError)):
		w.Header().Set("Connection", "close") // do not read the rest
		return decisionRequest{}, newProblem("too-large", "the body has more than %d bytes", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return decisionRequest{}, newProblem("slow", "the body did not arrive in time; send it faster")
	}
	return decisionRequest{}, malformed(body, len(body), "the body ended early; want "+exampleRequest)
}

// checkMedia accepts the Content-Type that curl -d sends by default, so that people can use
// curl. Web pages can send this type to other origins too, but localhost.FromPage refuses them.
func checkMedia(h http.Header) *problem {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return newProblem("media-type", "the body has the Content-Encoding %q; send it without encoding", encoding)
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	switch {
	case err != nil || media != "application/json" && media != "application/x-www-form-urlencoded":
		return newProblem("media-type", "the body has the Content-Type %q; want application/json", given)
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return newProblem("media-type", "the body has the charset %q; want utf-8", charset)
	}
	return nil
}

// decodeRequest decodes the body. It refuses three mistakes that encoding/json accepts, because they
// would apply a wrong limit: names in another letter case, duplicate names, and strings with lone
// surrogates, which would all become the same key.
func decodeRequest(body []byte) (decisionRequest, *problem) {
	if p := checkSyntax(body); p != nil {
		return decisionRequest{}, p
	}
	whole := gjson.ParseBytes(body)
	if !whole.IsObject() {
		return decisionRequest{}, invalid("", "the body is %s; want an object such as %s", kindOf(whole), exampleRequest)
	}
	request, seen := decisionRequest{Cost: 1}, []string(nil)
	var p *problem
	whole.ForEach(func(name, value gjson.Result) bool {
		if slices.Contains(seen, name.String()) {
			p = invalid(name.String(), "%s: the member is there twice; send it once", name)
		} else {
			seen = append(seen, name.String())
			p = request.read(name.String(), value)
		}
		return p == nil
	})
	text, base64 := slices.Contains(seen, "key"), slices.Contains(seen, "key_base64")
	switch {
	case p != nil:
	case !text && !base64: // not an empty key: a program that forgets the key would let all its clients share one quota
		p = invalid("key", `key is missing; want %s, or "" if all requests share one quota`, exampleRequest)
	case text && base64:
		p = invalid("key_base64", "both key and key_base64 are there; send one of them")
	}
	return request, p
}

func checkSyntax(body []byte) *problem {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return malformed(body, 0, "the body is empty; want "+exampleRequest)
	}
	for i, r := range string(body) {
		if r == utf8.RuneError && !bytes.HasPrefix(body[i:], []byte("\uFFFD")) {
			return malformed(body, i, "the body is not UTF-8; send a key that is not UTF-8 as key_base64")
		}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, new(json.RawMessage)); !errors.As(err, &syntax) {
		return nil
	}
	offset, what := int(syntax.Offset)-1, syntax.Error()
	if strings.HasPrefix(what, "unexpected end") {
		offset, what = len(body), "the JSON ends early"
	}
	return malformed(body, offset, what+"; want an object such as "+exampleRequest)
}

// malformed is the problem of a body that is not JSON. Its line and column, both from 1, tell the offset.
func malformed(body []byte, offset int, what string) *problem {
	before := body[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := offset - bytes.LastIndexByte(before, '\n')
	p := newProblem("malformed", "line %d, column %d: %s", line, column, what)
	p.Offset = &offset
	return p
}

// read reads a member.
func (a *decisionRequest) read(name string, value gjson.Result) *problem {
	var ok bool
	var want string
	switch name {
	case "key":
		a.Key, ok = stringOf(value)
		want = `a string such as "user:42", or key_base64 for a key that is not UTF-8`
	case "key_base64":
		a.Key, ok = base64Of(value)
		want = `a string in standard base64 with its padding, such as "dXNlcjo0Mg=="`
	case "cost":
		a.Cost, ok = positive(value)
		want = "a whole number from 1 to " + strconv.FormatInt(math.MaxInt64, 10)
	case "rule":
		return a.readRule(value)
	default:
		return invalid(name, "unknown member %q; want key or key_base64, cost and rule", name)
	}
	switch {
	case !ok:
		return wrong(name, value, want)
	case len(a.Key) > maxKey:
		p := newProblem("too-large", "the key has %d bytes; want at most %d", len(a.Key), maxKey)
		p.Field = name
		return p
	}
	return nil
}

func base64Of(value gjson.Result) (string, bool) {
	text, ok := stringOf(value)
	decoded, err := base64.StdEncoding.Strict().DecodeString(text)
	return string(decoded), ok && err == nil && !strings.ContainsAny(text, "\r\n") // the decoder ignores line ends
}

// exactNumber matches the numbers that big.Rat reads in little time.
var exactNumber = regexp.MustCompile(`^[0-9.]+([eE][+-]?[0-9]{1,4})?$`)

// positive returns a whole number from 1. A floating-point number would round 1.0000000000000000001 to 1. Some
// languages write whole numbers as 3.0 or 1e18.
func positive(value gjson.Result) (int64, bool) {
	number := new(big.Rat)
	if value.Type != gjson.Number || !exactNumber.MatchString(value.Raw) {
		return 0, false
	}
	number.SetString(value.Raw)
	return number.Num().Int64(), number.IsInt() && number.Num().IsInt64() && number.Sign() > 0
}

func (a *decisionRequest) readRule(value gjson.Result) *problem {
	list, want := value.Array(), `names in the list, such as ["api","daily"]`
	if !value.IsArray() || len(list) == 0 {
		list = []gjson.Result{value}
		want = `a rule's name such as "api", or a list of names such as ["api","daily"]; leave it out to use all rules`
	}
	named := make(map[string]bool, len(list))
	for _, element := range list {
		name, ok := stringOf(element)
		switch {
		case !ok:
			return wrong("rule", element, want)
		case named[name]:
			return invalid("rule", "rule: %q is named twice; name it once", name)
		}
		named[name] = true
		a.Rules = append(a.Rules, name)
	}
	return nil
}

// wholeCharacters matches a JSON string if each surrogate in it has its other half.
var wholeCharacters = regexp.MustCompile(`^"(?:[^\\]|\\[^u]|\\u(?i:[^d]...|d[0-7]..|d[89ab]..\\ud[c-f]..))*"$`)

// stringOf returns the value of a JSON string. It refuses lone surrogates, because decoders
// replace each by U+FFFD, so different keys would become equal.
func stringOf(value gjson.Result) (text string, ok bool) {
	if value.Type != gjson.String || strings.Contains(value.Raw, `\`) && !wholeCharacters.MatchString(value.Raw) {
		return "", false
	}
	return value.Str, true
}

// wrong returns the problem of a member with an invalid value. It shows a short value as written, the
// beginning of a long number, and the kind of any other value.
func wrong(name string, value gjson.Result, want string) *problem {
	got := value.Raw
	switch isLong := len(got) > maxShown; {
	case isLong && value.Type == gjson.Number:
		got = got[:maxShown] + "..."
	case isLong, value.Type == gjson.JSON:
		got = kindOf(value)
	}
	return invalid(name, "%s: want %s, got %s", name, want, got)
}

func kindOf(value gjson.Result) string {
	switch {
	case value.IsObject():
		return "an object"
	case value.IsArray():
		return "a list"
	case value.IsBool():
		return "a boolean"
	}
	return map[gjson.Type]string{gjson.Null: "null", gjson.Number: "a number", gjson.String: "a string"}[value.Type]
}
