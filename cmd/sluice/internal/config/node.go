package config

import (
	"fmt"
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/sluice-go/sluice/internal/errtext"
)

// member is a key of a mapping and the function that reads its value. at is the path of the
// value, for errors.
type member struct {
	name string
	read func(n ast.Node, at string)
}

// value returns the member that read converts. An error leaves to unchanged.
func value[T any](r *reader, name string, to *T, read func(ast.Node) (T, error)) member {
	return member{name, func(n ast.Node, at string) {
		v, err := read(n)
		if err != nil {
			r.fault(n, at, err)
			return
		}
		*to = v
	}}
}

// list returns the member with a list, or with a single value without a list. read converts each
// value. Without want, the list may be empty.
func list[T any](r *reader, name string, to *[]T, want string, read func(ast.Node) (T, error)) member {
	one := func(n ast.Node, at string) {
		v, err := read(n)
		if err != nil {
			r.fault(n, at, err)
			return
		}
		*to = append(*to, v)
	}
	return member{name, func(n ast.Node, at string) {
		l, ok := n.(*ast.SequenceNode)
		switch {
		case !ok:
			one(n, at)
			return
		case len(l.Values) == 0 && want == "":
			*to = []T{}
		case len(l.Values) == 0:
			r.faultf(n, at, "is an empty list; leave it out, or write %s", want)
		}
		for i, n := range l.Values {
			one(n, fmt.Sprintf("%s[%d]", at, i))
		}
	}}
}

// members reads a mapping. It returns the key nodes by their names; nil if n is not a
// mapping.
func (r *reader) members(n ast.Node, at string, known []member) map[string]ast.Node {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		r.faultf(n, at, "%s; want a mapping with the fields %s", isA(n), orList(known))
		return nil
	}
	given := make(map[string]ast.Node)
	for _, pair := range mapping.Values {
		r.member(pair, at, known, given)
	}
	return given
}

func (r *reader) member(pair *ast.MappingValueNode, at string, known []member, given map[string]ast.Node) {
	name, ok := text(pair.Key)
	if !ok {
		r.faultf(pair.Key, at, "no field %s; want %s", errtext.Quote(pair.Key.GetToken().Value), orList(known))
		return
	}
	place := strings.TrimPrefix(at+"."+name, ".")
	if first := given[name]; first != nil {
		r.faultf(pair.Key, place, "is there twice, first in line %d; write it once", lineOf(first))
		return
	}
	var names []string
	for _, m := range known {
		if m.name == name {
			given[name] = pair.Key
			m.read(pair.Value, place)
			return
		}
		names = append(names, m.name)
	}
	r.faultf(pair.Key, at, "no field %s%s; want %s", errtext.Quote(name), didYouMean(name, names), orList(known))
}

// orList returns the names of the members in the form a, b or c.
func orList(known []member) string {
	text := known[0].name
	for _, m := range known[1 : len(known)-1] {
		text += ", " + m.name
	}
	return text + " or " + known[len(known)-1].name
}

// didYouMean returns a hint if one of the known words is similar to the typed word.
func didYouMean(typed string, known []string) string {
	nearest := errtext.Nearest(typed, known)
	if nearest == "" {
		return ""
	}
	return ", did you mean " + nearest + "?"
}

// text returns the value of a node that is text.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), true
	}
	return "", false
}

// isA describes a node that has the wrong type or value.
func isA(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "is empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "is a mapping"
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			return "is an empty list"
		}
		return "is a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "anchors and aliases are not supported"
	case *ast.TagNode:
		return "tags are not supported"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "is " + n.GetToken().Value
	case *ast.StringNode:
		return "is " + errtext.Quote(n.Value)
	case *ast.LiteralNode:
		return "is text"
	}
	return fmt.Sprintf("is a %s", n.Type())
}

// word returns text that is not blank.
func word(n ast.Node, want string) (string, error) {
	s, _ := text(n)
	if strings.TrimSpace(s) == "" {
		return "", fmt.Errorf("%s; want %s", isA(n), want)
	}
	return s, nil
}

func boolean(n ast.Node) (bool, error) {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return false, fmt.Errorf("%s; want true or false", isA(n))
	}
	return b.Value, nil
}

// integer reads a decimal number. It refuses 010, which the YAML library reads as 8.
func integer(n ast.Node) (v int64, ok bool) {
	i, ok := n.(*ast.IntegerNode)
	if !ok || i.GetToken().Type != token.IntegerType {
		return 0, false
	}
	switch u := i.Value.(type) {
	case int64:
		v = u
	case uint64:
		v = int64(min(u, math.MaxInt64))
	}
	return v, true
}
