package config

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is the longest file that Parse reads, in bytes.
const MaxSize = 128 << 10

// maxDepth is how deep lists and mappings may be nested on a line. The library takes
// time and stack that grow with the square of it.
const maxDepth = 50

// maxBlank is how many lines may follow each other that are blank. Of those in a text
// of several lines the library takes time that grows with the square of their number.
const maxBlank = 200

// Parse reads a file, whose name is for errors only. Every error is an [*Error].
func Parse(name string, text []byte) (*File, error) {
	var r reader
	f := r.file(text)
	if len(r.faults) == 0 {
		return f, nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return nil, &Error{File: name, Faults: r.faults}
}

// Read reads the file of that name. What is wrong with its content is an [*Error].
func Read(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// reader makes a File of nodes.
type reader struct {
	faults faults
}

func (r *reader) file(text []byte) *File {
	root := r.root(text)
	if root == nil {
		return nil
	}
	f := new(File)
	given := r.members(root, "", []member{
		{"trusted", func(n ast.Node, at string) { f.Trusted = r.prefixes(n, at) }},
		{"forwarded", func(n ast.Node, at string) { f.Forwarded = r.boolean(n, at) }},
		{"ipv6_bits", func(n ast.Node, at string) { f.IPv6Bits = int(r.number(n, at, 32, 128)) }},
		{"rules", func(n ast.Node, at string) { f.Rules = r.rules(n, at) }},
	})
	if given != nil && given["rules"] == nil {
		r.faults.add(root, "rules", "missing; want %s", wantRules)
	}
	if n := given["forwarded"]; n != nil && f.Forwarded && (given["trusted"] == nil || f.Trusted != nil && len(f.Trusted) == 0) {
		r.faults.add(n, "forwarded", "has no effect without trusted; want the addresses of your proxies there")
	}
	return f
}

const wantRules = "a list of rules, each with a name and a policy, such as [{name: client, policy: gcra 100/m, by: ip}]"

// root is the one document of the text; nil after a fault.
func (r *reader) root(text []byte) ast.Node {
	if problem := unreadable(text); problem != "" {
		r.faults = append(r.faults, Fault{Line: 1, Problem: problem})
		return nil
	}
	if line := tooBlank(text); line > 0 {
		r.faults = append(r.faults, Fault{Line: line, Problem: fmt.Sprintf("more than %d blank lines begin here; want fewer", maxBlank)})
		return nil
	}
	file, err := parseYAML(text)
	if err != nil {
		r.faults = append(r.faults, syntaxFault(err, text))
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.DirectiveType:
		case root != nil:
			r.faults.add(doc.Body, "", "a second document begins here; want one, without --- between")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.faults.add(nil, "", "the file is empty; want rules: %s", wantRules)
	}
	return root
}

// unreadable is what is wrong with a text that is not even looked at.
func unreadable(text []byte) string {
	switch {
	case len(text) > MaxSize:
		return fmt.Sprintf("the file has more than %d kB; want a limits.yaml, is this one?", MaxSize>>10)
	case !utf8.Valid(text) || bytes.ContainsRune(text, 0):
		return "the file is not text in UTF-8; want a limits.yaml, is this one?"
	}
	return ""
}

// tooBlank is the line where more than maxBlank begin that are blank; 0 if none do.
func tooBlank(text []byte) int {
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	number, blank := 0, 0
	for line := range bytes.Lines(text) {
		number++
		if blank++; len(bytes.TrimSpace(line)) > 0 {
			blank = 0
		}
		if blank > maxBlank {
			return number - maxBlank
		}
	}
	return 0
}

// parseYAML is the library's parser. Should a text be found that it panics on, the
// text is wrong, not the process that reads it again on a signal.
func parseYAML(text []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("no YAML that can be read: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(text, []byte("\uFEFF"))))
	if deep := tooDeep(tokens); deep != nil {
		return nil, &yaml.SyntaxError{Message: fmt.Sprintf("nested more than %d deep", maxDepth), Token: deep}
	}
	return parser.Parse(withContent(tokens), 0, parser.AllowDuplicateMapKey()) // members tells duplicates
}

// withContent leaves out each --- that only comments divide from the next one. The
// library takes nothing from there on, and does not say so.
func withContent(tokens token.Tokens) (kept token.Tokens) {
	header := -1
	for _, t := range tokens {
		switch t.Type {
		case token.CommentType:
		case token.DocumentHeaderType:
			if header >= 0 {
				kept = slices.Delete(kept, header, header+1)
			}
			header = len(kept)
		default:
			header = -1
		}
		kept = append(kept, t)
	}
	return kept
}

// tooDeep is the token that goes beyond maxDepth; nil if none does.
func tooDeep(tokens token.Tokens) *token.Token {
	open, entries, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open--
		case token.SequenceEntryType:
			if t.Position.Line != line {
				entries, line = 0, t.Position.Line
			}
			entries++
		}
		if open > maxDepth || entries > maxDepth {
			return t
		}
	}
	return nil
}
