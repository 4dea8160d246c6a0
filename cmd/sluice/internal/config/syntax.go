package config

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// syntaxFault is what the library says of a text that is no YAML, and what may
// have been meant.
func syntaxFault(err error, text []byte) Fault {
	var bad yaml.Error
	if !errors.As(err, &bad) {
		return Fault{Line: 1, Problem: oneLine(err.Error())}
	}
	f := Fault{Line: 1, Problem: "no valid YAML: " + oneLine(bad.GetMessage())}
	for _, h := range hints {
		if strings.Contains(f.Problem, h.message) {
			f.Problem += "; " + h.want
			break
		}
	}
	if t := bad.GetToken(); t != nil && t.Position != nil {
		f.Line = max(1, t.Position.Line)
		f.Caret = caretBelow(text, f.Line, t.Position.Column)
	}
	return f
}

// hints are remedies for what the library says, by a part of it.
var hints = [...]struct{ message, want string }{
	{"cannot start any token", "want spaces to indent with, no tabs, and text that begins with such a character in quotes"},
	{"tab character", "want spaces to indent with, no tabs"},
	{"non-map value", "want a colon and a space behind each field, such as name: client"},
	{"unexpected key name", "want a colon and a space behind each field, such as name: client"},
	{"mapping value is not allowed", "want text that has a colon and a space in quotes, and fields of one rule indented alike"},
	{"value is not allowed in this context", "want the fields of one rule indented alike"},
	{"end token", "want a bracket that closes each one that opens"},
	{"end character", "want a quotation mark that closes each one that opens"},
}

// oneLine escapes what cannot be shown on a line. The library quotes some texts
// whole, so it is cut.
func oneLine(s string) string {
	const most = 200
	quoted := strconv.QuoteToGraphic(s)
	text := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most]) + "..."
	}
	return text
}

// caretBelow is the line and a caret below the column, counted in characters from 1;
// empty if the line cannot be shown.
func caretBelow(text []byte, line, column int) string {
	const most = 200
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	text, _, _ = bytes.Cut(text, []byte("\n"))
	shown := strings.ReplaceAll(strings.TrimRight(string(text), "\r"), "\t", " ")
	if shown == "" || len(shown) > most || column > utf8.RuneCountInString(shown)+1 || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return shown + "\n" + strings.Repeat(" ", max(0, column-1)) + "^"
}
