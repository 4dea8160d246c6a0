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

// ServeHTTP answers GET with the list, as text or, if the client prefers application/json, as
// JSON. Attackers can choose keys, so both forms are printable ASCII, without control
// characters for terminals or markup for browsers. In the text, rules and keys are quoted
// as in Go. In the JSON, a key that is not valid UTF-8 is also in "bytes", in base64.
func (d *Denied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "Only GET and HEAD are allowed for the list of denied keys.", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Vary", "Accept")
	report := d.report()
	if prefersJSON(r.Header.Values("Accept")) {
		h.Set("Content-Type", "application/json")
		w.Write(report.appendJSON(nil)) // fails only if the client is gone
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(report.appendText(nil, d.clock()))
}

// appendText appends the report for people.
func (r *report) appendText(b []byte, now time.Time) []byte {
	b = fmt.Appendf(b, "%d denials since %s (%s).\n", r.Denials, r.Since.UTC().Format(time.RFC3339), now.Sub(r.Since).Truncate(time.Second))
	b = fmt.Appendf(b, "Each count is too high by at most its error. A key that is not listed was denied at most %d times.\n\n", r.Missing)
	b = fmt.Appendf(b, "%12s %12s  %s\n", "count", "error", "rule and key")
	for _, k := range r.Keys {
		b = fmt.Appendf(b, "%12d %12d  %s %s\n", k.Count, k.Error, strconv.QuoteToASCII(k.Rule), strconv.QuoteToASCII(k.Key))
	}
	return b
}

// appendJSON appends the report for programs. They may print it to a terminal.
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
	text, _ := json.Marshal(struct { // these types cannot fail
		Since   time.Time `json:"since"`
		Denials uint64    `json:"denials"`
		Missing uint64    `json:"missing_at_most"`
		Keys    []key     `json:"keys"`
	}{r.Since.UTC(), r.Denials, r.Missing, keys})
	return append(appendASCII(b, text), '\n')
}

// appendASCII appends JSON text and escapes what is not printable ASCII in its strings.
// Package json leaves no other control character than DEL.
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
