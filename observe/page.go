package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// ServeHTTP shows the list to a GET: as text, or as JSON to a client that prefers
// application/json. Keys are attackers' bytes, so both are printable ASCII only,
// without anything that a terminal or a browser obeys. In the text, rules and keys
// are quoted as in Go. In the JSON they are exact, but for bytes that are not
// UTF-8; such a key has "bytes" too, in base64.
func (d *Denied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "The list of denied keys answers GET.", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Vary", "Accept")
	report := d.report()
	if prefersJSON(r.Header.Values("Accept")) {
		h.Set("Content-Type", "application/json")
		w.Write(report.appendJSON(nil)) // an error means that nobody reads any more
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(report.appendText(nil, d.clock()))
}

// appendText writes the report for a person.
func (r *report) appendText(b []byte, now time.Time) []byte {
	b = fmt.Appendf(b, "%d denials since %s (%s).\n", r.Denials, r.Since.UTC().Format(time.RFC3339), now.Sub(r.Since).Truncate(time.Second))
	b = fmt.Appendf(b, "A count may be too large, by its error at most. A key that is not here was denied %d times at most.\n\n", r.Missing)
	b = fmt.Appendf(b, "%12s %12s  %s\n", "count", "error", "rule and key")
	for _, k := range r.Keys {
		b = fmt.Appendf(b, "%12d %12d  %s %s\n", k.Count, k.Error, strconv.QuoteToASCII(k.Rule), strconv.QuoteToASCII(k.Key))
	}
	return b
}

// appendJSON writes the report for a program, which may show it to a terminal as
// it is.
func (r *report) appendJSON(b []byte) []byte {
	type key struct {
		Rule  string `json:"rule"`
		Key   string `json:"key"`
		Bytes []byte `json:"bytes,omitempty"`
		Count uint64 `json:"count"`
		Error uint64 `json:"error"`
	}
	keys := make([]key, len(r.Keys))
	for i, k := range r.Keys {
		keys[i] = key{Rule: k.Rule, Key: k.Key, Count: k.Count, Error: k.Error}
		if !utf8.ValidString(k.Key) {
			keys[i].Bytes = []byte(k.Key)
		}
	}
	text, _ := json.Marshal(struct { // nothing in it can fail
		Since   time.Time `json:"since"`
		Denials uint64    `json:"denials"`
		Missing uint64    `json:"missing_at_most"`
		Keys    []key     `json:"keys"`
	}{r.Since.UTC(), r.Denials, r.Missing, keys})
	return append(appendASCII(b, text), '\n')
}

// appendASCII writes JSON whose strings have escapes for what is not printable
// ASCII. Of control characters only DEL is left by package json.
func appendASCII(b, text []byte) []byte {
	for _, c := range string(text) {
		switch {
		case c < 0x7f:
			b = append(b, byte(c))
		case c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return b
}
