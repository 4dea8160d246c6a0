package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

func (r *reader) rules(n ast.Node, at string) (rules []Rule) {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.faults.add(n, at, "%s; want %s", isA(n), wantRules)
		return nil
	}
	lines := make(map[string]int)
	for i, value := range list.Values {
		rules = append(rules, r.rule(value, fmt.Sprintf("%s[%d]", at, i), lines))
	}
	return rules
}

// rule reads a rule. lines has the line of each name of earlier rules.
func (r *reader) rule(n ast.Node, at string, lines map[string]int) Rule {
	rule := Rule{Cost: Cost{Units: 1}}
	given := r.members(n, at, []member{
		{"name", func(n ast.Node, at string) { rule.Name = r.name(n, at, lines) }},
		{"policy", func(n ast.Node, at string) { rule.Policy = r.policy(n, at) }},
		{"by", func(n ast.Node, at string) { rule.By = r.by(n, at) }},
		{"missing", func(n ast.Node, at string) { rule.Missing = r.missing(n, at) }},
		{"cost", func(n ast.Node, at string) { rule.Cost = r.cost(n, at) }},
		{"methods", func(n ast.Node, at string) { rule.Methods = r.methods(n, at) }},
		{"paths", func(n ast.Node, at string) { rule.Paths = r.paths(n, at) }},
		{"shadow", func(n ast.Node, at string) { rule.Shadow = r.boolean(n, at) }},
	})
	if given == nil {
		return rule
	}
	for _, name := range [...]struct{ field, want string }{{"name", wantName}, {"policy", wantPolicy}} {
		if given[name.field] == nil {
			r.faults.add(n, at+"."+name.field, "missing; want %s", name.want)
		}
	}
	if n := given["missing"]; n != nil && (len(rule.By) > 0 || given["by"] == nil) {
		r.missingHasEffect(n, at+".missing", &rule)
	}
	if c := given["cost"]; c != nil && rule.Policy != nil {
		r.affordable(c, at+".cost", &rule)
	}
	return rule
}

const (
	wantName   = "1 to 64 letters, digits, - and _, such as per-client"
	wantPolicy = "a policy, such as gcra 100/m burst=20"
)

func (r *reader) name(n ast.Node, at string, lines map[string]int) string {
	if as := otherThanText(n); as != "" {
		r.faults.add(n, at, "%s, which is %s without quotes; want text in quotes: \"%s\"", isA(n), as, n.GetToken().Value)
		return ""
	}
	name, ok := r.word(n, at, wantName)
	if !ok {
		return ""
	}
	if !isName(name) {
		r.faults.add(n, at, "is %s; want %s", errtext.Quote(name), wantName)
		return ""
	}
	if first, taken := lines[name]; taken {
		r.faults.add(n, at, "%s is also the name of the rule in line %d; want another name", errtext.Quote(name), first)
		return ""
	}
	lines[name] = lineOf(n)
	return name
}

// otherThanText returns the YAML type of a value that would be a valid name in quotes; empty
// for text and for other values.
func otherThanText(n ast.Node) string {
	if n == nil || n.GetToken() == nil || !isName(n.GetToken().Value) {
		return ""
	}
	switch n.(type) {
	case *ast.IntegerNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	}
	return ""
}

// isName allows few characters, because names become part of stored keys, headers and
// metrics. A dot would look like a part of a stacked policy there.
func isName(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	})
}

func (r *reader) policy(n ast.Node, at string) algo.Policy {
	spec, ok := r.word(n, at, wantPolicy)
	if !ok {
		return nil
	}
	p, err := compose.ParseRulePolicy(spec)
	if err != nil {
		r.badSpec(n, at, err)
		return nil
	}
	return p
}

func (r *reader) badSpec(n ast.Node, at string, err error) {
	var bad *compose.SpecError
	if !errors.As(err, &bad) {
		r.faults.add(n, at, "%v", err)
		return
	}
	r.faults.add(n, at, "%s", bad.Problem)
	if len(bad.Spec) <= 200 && !strings.ContainsFunc(bad.Spec, func(r rune) bool { return !unicode.IsPrint(r) }) {
		r.faults[len(r.faults)-1].Caret = bad.Caret()
	}
}

// Capacity returns the largest cost that a policy can ever allow.
func Capacity(p algo.Policy) int64 {
	res, err := p.Peek(nil, time.Unix(0, 0), 1)
	if err != nil {
		return 0
	}
	return res.Limit
}

func (r *reader) affordable(n ast.Node, at string, rule *Rule) {
	if most := Capacity(rule.Policy); rule.Cost.Units > most {
		r.faults.add(n, at, "is %d, and the policy %v never allows more than %d at once, so all requests would be denied; want at most %[3]d, or a larger policy",
			rule.Cost.Units, rule.Policy, most)
	}
}

func (r *reader) by(n ast.Node, at string) (fields []Field) {
	const want = "one or more of " + fieldWords
	if s, ok := fieldText(n); ok && s != "" {
		fields, err := ParseFields(s)
		if err != nil {
			r.faults.add(n, at, "%v", err)
		}
		return fields
	}
	r.list(n, at, want, func(n ast.Node, at string) {
		s, ok := fieldText(n)
		if !ok {
			r.faults.add(n, at, "%s; want %s", isA(n), want)
			return
		}
		f, err := parseField(s)
		if err == nil && slices.Contains(fields, f) {
			err = fmt.Errorf("%v is there twice; write it once", f)
		}
		if err != nil {
			r.faults.add(n, at, "%v", err)
			return
		}
		fields = append(fields, f)
	})
	return fields
}

// fieldText returns the text of a field. In a list within braces the library reads
// header:X-Team, which is text in YAML, as a mapping of header to X-Team.
func fieldText(n ast.Node) (string, bool) {
	pair, ok := n.(*ast.MappingNode)
	if !ok || len(pair.Values) != 1 {
		return text(n)
	}
	kind, ok := text(pair.Values[0].Key)
	name, ok2 := text(pair.Values[0].Value)
	return kind + ":" + name, ok && ok2
}

func (r *reader) cost(n ast.Node, at string) Cost {
	if s, ok := text(n); ok {
		if s != "bytes" {
			r.faults.add(n, at, "is %s; want a whole number from 1, or bytes", errtext.Quote(s))
		}
		return Cost{Bytes: true}
	}
	units, ok := integer(n)
	if !ok || units < 1 {
		r.faults.add(n, at, "%s; want a whole number from 1, or bytes", isA(n))
		return Cost{Units: 1}
	}
	return Cost{Units: units}
}

func (r *reader) methods(n ast.Node, at string) (methods []string) {
	const want = "methods, such as [GET, POST]"
	r.list(n, at, want, func(n ast.Node, at string) {
		m, ok := r.word(n, at, want)
		switch {
		case !ok:
		case !isToken(m):
			r.faults.add(n, at, "is %s; want a method, such as GET", errtext.Quote(m))
		default:
			methods = append(methods, strings.ToUpper(m))
		}
	})
	return methods
}

func (r *reader) paths(n ast.Node, at string) (paths []string) {
	const want = "paths, such as [/login, /api/*]"
	r.list(n, at, want, func(n ast.Node, at string) {
		p, ok := r.word(n, at, want)
		if !ok {
			return
		}
		if problem := badPattern(p); problem != "" {
			r.faults.add(n, at, "is %s; %s", errtext.Quote(p), problem)
			return
		}
		paths = append(paths, p)
	})
	return paths
}

// badPattern returns the reason why a path pattern is invalid; empty if it is valid.
func badPattern(p string) string {
	tree, _ := strings.CutSuffix(p, "/*")
	switch {
	case strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "want printable characters, such as /login"
	case !strings.HasPrefix(p, "/"):
		return "want a path that begins with /, such as /login or /api/*"
	case strings.Contains(tree, "*"):
		return "want * only at the end, after a /, such as /api/*"
	case strings.ContainsAny(p, "?#%"):
		return "want a decoded path without a query, such as /login"
	case tree != "" && cleanPath(tree) != tree:
		return "want the cleaned path " + cleanPath(tree)
	}
	return ""
}
