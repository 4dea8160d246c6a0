package config

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// syntaxFault converts a syntax error of the library, and adds a remedy.
func syntaxFault(err error, text []byte) Fault {
	var bad yaml.Error
	if !errors.As(err, &bad) {
		return Fault{Line: 1, Problem: oneLine(err.Error())}
	}
	f := Fault{Line: 1, Problem: "invalid YAML: " + oneLine(bad.GetMessage())}
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

// hints has remedies for messages of the library, by a part of the message.
var hints = [...]struct{ message, want string }{
	{"cannot start any token", "indent with spaces, not tabs, and quote text that begins with such a character"},
	{"tab character", "indent with spaces, not tabs"},
	{"non-map value", "write a colon and a space after each field, such as name: client"},
	{"unexpected key name", "write a colon and a space after each field, such as name: client"},
	{"mapping value is not allowed", "quote text that has a colon and a space, and indent all fields of a rule alike"},
	{"value is not allowed in this context", "indent all fields of a rule alike"},
	{"end token", "close each bracket"},
	{"end character", "close each quotation mark"},
}

// oneLine escapes unprintable characters. It cuts long messages, because the library quotes
// some texts as a whole.
func oneLine(s string) string {
	const most = 200
	quoted := strconv.QuoteToGraphic(s)
	text := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most]) + "..."
	}
	return text
}

// caretBelow returns the line and a caret below the column, counted in characters from 1;
// empty if the line is too long or not printable.
func caretBelow(text []byte, line, column int) string {
	const most = 200
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	text, _, _ = bytes.Cut(text, []byte("\n"))
	shown := strings.ReplaceAll(strings.TrimRight(string(text), "\r"), "\t", " ")
	if shown == "" || len(shown) > most || column > utf8.RuneCountInString(shown)+1 || !isPrintable(shown) {
		return ""
	}
	return shown + "\n" + strings.Repeat(" ", max(0, column-1)) + "^"
}
