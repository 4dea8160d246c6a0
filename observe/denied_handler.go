package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// ServeHTTP answers GET with the list, as JSON if the request accepts application/json by name, and else as text. Both are
// printable ASCII without markup, because attackers can choose keys. In JSON, a key that is not valid UTF-8 is also in "bytes",
// in base64.
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
	if accept := strings.Join(r.Header.Values("Accept"), ","); strings.Contains(strings.ToLower(accept), "application/json") {
		h.Set("Content-Type", "application/json")
		w.Write(report.json()) // fails only if the client is gone
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(report.text(d.clock()))
}

// text returns the report for people.
func (r *report) text(now time.Time) []byte {
	b := fmt.Appendf(nil, "%d denials since %s (%s).\n", r.Denials, r.Since.Format(time.RFC3339), now.Sub(r.Since).Truncate(time.Second))
	b = fmt.Appendf(b, "Each count is too high by at most its error bound. A key that is not listed was denied at most %d times.\n\n", r.Missing)
	b = fmt.Appendf(b, "%12s %12s  %s\n", "count", "error bound", "rule and key")
	for _, k := range r.Keys {
		b = fmt.Appendf(b, "%12d %12d  %s %s\n", k.Count, k.ErrorBound, strconv.QuoteToASCII(k.Rule), strconv.QuoteToASCII(k.Key))
	}
	return b
}

// json returns the report for programs. They may print it to a terminal, so all characters
// are printable ASCII. Package json leaves no other control character than DEL.
func (r *report) json() []byte {
	type key struct {
		DeniedKey
		Bytes []byte `json:"bytes,omitempty"`
	}
	keys := make([]key, len(r.Keys))
	for i, k := range r.Keys {
		keys[i].DeniedKey = k
		if !utf8.ValidString(k.Key) {
			keys[i].Bytes = []byte(k.Key)
		}
	}
	text, _ := json.Marshal(struct { // these types cannot fail
		report
		Keys []key `json:"keys"` // instead of those of the report
	}{*r, keys})
	var b []byte
	for _, unit := range utf16.Encode([]rune(string(text))) {
		if unit < 0x7f {
			b = append(b, byte(unit))
		} else {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return append(b, '\n')
}
