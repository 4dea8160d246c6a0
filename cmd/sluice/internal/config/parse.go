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

// MaxSize is the size of the largest file that Parse accepts, in bytes.
const MaxSize = 128 << 10

// maxDepth is the deepest nesting of lists and mappings on a line. The library's time and
// stack grow with its square.
const maxDepth = 50

// maxBlank is the largest number of consecutive blank lines. In a multi-line text, the
// library's time grows with the square of that number.
const maxBlank = 200

// Parse parses the text of a file. The name is used in errors only. Every error is an
// [*Error].
func Parse(name string, text []byte) (*File, error) {
	r := reader{names: make(map[string]int)}
	if root := r.root(text); root != nil {
		f := r.file(root)
		if len(r.faults) == 0 {
			return f, nil
		}
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return nil, &Error{File: name, Faults: r.faults}
}

// Read reads and parses a file. Errors in its content are returned as an [*Error].
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

// root returns the only document of the text; nil after an error.
func (r *reader) root(text []byte) ast.Node {
	switch line := tooBlank(text); {
	case len(text) > MaxSize:
		r.faultf(nil, "", "the file has more than %d kB; is it a limits.yaml?", MaxSize>>10)
		return nil
	case !utf8.Valid(text) || bytes.ContainsRune(text, 0):
		r.faultf(nil, "", "the file is not UTF-8 text; is it a limits.yaml?")
		return nil
	case line > 0:
		r.faults = append(r.faults, Fault{Line: line, Problem: fmt.Sprintf("more than %d consecutive blank lines begin here; remove some", maxBlank)})
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
			r.faultf(doc.Body, "", "a second YAML document begins here; want one document, so remove the ---")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.faultf(nil, "", "the file is empty; want rules: %s", wantRules)
	}
	return root
}

// tooBlank returns the first of more than maxBlank consecutive blank lines; 0 if there are
// none.
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

// parseYAML calls the library's parser. A panic of the parser becomes an error, because a
// reload must not end the process.
func parseYAML(text []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the YAML parser failed: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(text, []byte("\uFEFF"))))
	if deep := tooDeep(tokens); deep != nil {
		return nil, &yaml.SyntaxError{Message: fmt.Sprintf("nested more than %d deep", maxDepth), Token: deep}
	}
	return parser.Parse(withContent(tokens), 0, parser.AllowDuplicateMapKey()) // members tells duplicates
}

// withContent removes each --- that only comments separate from the next ---. The library
// would ignore the rest of the file without an error.
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

// tooDeep returns the first token that exceeds maxDepth; nil if none does.
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
