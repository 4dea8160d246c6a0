package config

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
)

// version matches the directive %YAML 1.2. The library refuses it, but reads YAML 1.2.
var version = regexp.MustCompile(`^(\x{FEFF}?(?:[ \t]*(?:#.*)?\n)*%YAML[ \t]+1\.)2\b`)

// document returns the root of the only document of the text; nil after an error.
func (r *reader) document(text []byte) (root *yaml.Node) {
	start := &yaml.Node{Line: 1}
	defer func() {
		if p := recover(); p != nil { // a reload must not end the process
			r.faultf(start, "", "the YAML parser failed: %v", p)
			root = nil
		}
	}()
	switch {
	case len(text) > MaxSize:
		r.faultf(start, "", "the file has more than %d kB; is it a limits.yaml?", MaxSize>>10)
		return nil
	case !utf8.Valid(text) || bytes.ContainsRune(text, 0):
		r.faultf(start, "", "the file is not UTF-8 text; is it a limits.yaml?")
		return nil
	}
	var documents []yaml.Node
	if err := yaml.Load(version.ReplaceAll(text, []byte("${1}1")), &documents, yaml.WithAllDocuments()); err != nil {
		r.faults = append(r.faults, syntaxFault(err, text))
		return nil
	}
	documents = slices.DeleteFunc(documents, func(d yaml.Node) bool { return isNothing(d.Content[0]) })
	switch len(documents) {
	case 0:
		r.faultf(start, "", "the file is empty; want rules: %s", wantRules)
		return nil
	case 1:
		return documents[0].Content[0]
	}
	r.faultf(documents[1].Content[0], "", "a second YAML document begins here; want one document, so remove the ---")
	return nil
}

// syntaxFault converts a syntax error of the library, and adds a remedy.
func syntaxFault(err error, text []byte) Fault {
	var bad *yaml.LoadError
	if !errors.As(err, &bad) {
		return Fault{Line: 1, Problem: oneLine(err.Error())}
	}
	problem, at := "invalid YAML: "+bad.Message, bad.Mark
	if bad.ContextMsg != "" {
		problem += " " + bad.ContextMsg
	}
	for _, h := range hints {
		if strings.Contains(problem, h.message) {
			problem += "; " + h.want
			break
		}
	}
	if start := bad.ContextMark; 0 < start.Line && start.Line < at.Line && !strings.Contains(problem, "parsing a block") {
		at = start // of the bracket, the quotation or the key
	}
	lines := strings.Split(strings.TrimRight(string(text), " \r\n"), "\n")
	f := Fault{Line: min(max(at.Line, 1), len(lines)), Problem: oneLine(problem)}
	line := strings.ReplaceAll(strings.TrimRight(lines[f.Line-1], "\r"), "\t", " ")
	if at.Line > f.Line { // the end of the text
		at.Column = utf8.RuneCountInString(line) + 1
	}
	if line != "" && len(line) <= maxShown && IsPrintable(line) {
		f.Caret = line + "\n" + strings.Repeat(" ", max(0, at.Column-1)) + "^"
	}
	return f
}

// hints has remedies for messages of the library, by a part of the message.
var hints = [...]struct{ message, want string }{
	{"cannot start any token", "indent with spaces, not tabs, and quote text that begins with such a character"},
	{"tab character", "indent with spaces, not tabs"},
	{"expected ':'", "write a colon and a space after each field, such as name: client"},
	{"mapping values are not allowed", "here and in the line before, write a colon and a space after each field, quote text that has both, and indent all fields of a rule alike"},
	{"parsing a block", "indent all fields of a rule alike"},
	{"parsing a flow", "close each bracket"},
	{"end of stream", "close each quotation mark"},
}

// oneLine escapes unprintable characters and cuts a long message.
func oneLine(s string) string { return readable.Cut(readable.Graphic(s), maxShown) }
