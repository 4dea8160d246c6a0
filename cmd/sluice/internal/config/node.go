package config

import (
	"fmt"
	"math"
	"net/netip"
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

// members reads a mapping. It returns the key nodes by their names; nil if n is not a
// mapping.
func (r *reader) members(n ast.Node, at string, known []member) map[string]ast.Node {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		r.faults.add(n, at, "%s; want a mapping with the fields %s", isA(n), keysOf(known))
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
		r.faults.add(pair.Key, at, "no field %s; want %s", errtext.Quote(pair.Key.GetToken().Value), keysOf(known))
		return
	}
	place := strings.TrimPrefix(at+"."+name, ".")
	if first := given[name]; first != nil {
		r.faults.add(pair.Key, place, "is there twice, first in line %d; write it once", lineOf(first))
		return
	}
	for _, m := range known {
		if m.name == name {
			given[name] = pair.Key
			m.read(pair.Value, place)
			return
		}
	}
	r.faults.add(pair.Key, at, "no field %s%s; want %s", errtext.Quote(name), didYouMean(name, names(known)), keysOf(known))
}

func names(known []member) []string {
	var names []string
	for _, m := range known {
		names = append(names, m.name)
	}
	return names
}

func keysOf(known []member) string {
	n := names(known)
	return strings.Join(n[:len(n)-1], ", ") + " or " + n[len(n)-1]
}

// text is the value of a node that is text.
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

// word is text on one line.
func (r *reader) word(n ast.Node, at, want string) (string, bool) {
	s, ok := text(n)
	if !ok || strings.TrimSpace(s) == "" {
		r.faults.add(n, at, "%s; want %s", isA(n), want)
		return "", false
	}
	return s, true
}

// list reads each value of a list, or a single value without a list.
func (r *reader) list(n ast.Node, at, want string, read func(n ast.Node, at string)) {
	l, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		read(n, at)
		return
	case len(l.Values) == 0:
		r.faults.add(n, at, "is an empty list; leave it out, or write %s", want)
	}
	for i, value := range l.Values {
		read(value, fmt.Sprintf("%s[%d]", at, i))
	}
}

func (r *reader) boolean(n ast.Node, at string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.faults.add(n, at, "%s; want true or false", isA(n))
		return false
	}
	return b.Value
}

func (r *reader) number(n ast.Node, at string, least, most int64) int64 {
	v, ok := integer(n)
	if !ok || v < least || v > most {
		r.faults.add(n, at, "%s; want a whole number from %d to %d", isA(n), least, most)
		return 0
	}
	return v
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

func (r *reader) prefixes(n ast.Node, at string) (all []netip.Prefix) {
	const want = "addresses or prefixes, such as [10.0.0.0/24, 192.0.2.1]"
	if l, ok := n.(*ast.SequenceNode); ok && len(l.Values) == 0 {
		return []netip.Prefix{} // the file says that there is no proxy
	}
	r.list(n, at, want, func(n ast.Node, at string) {
		s, ok := r.word(n, at, want)
		if !ok {
			return
		}
		p, err := ParseTrusted(s)
		if err != nil {
			r.faults.add(n, at, "%v", err)
			return
		}
		all = append(all, p)
	})
	return all
}
