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

// rule reads one; lines are those of the names taken.
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
		r.faults.add(n, at, "%s, which without quotes is %s and no text; want \"%s\", quotes and all", isA(n), as, n.GetToken().Value)
		return ""
	}
	name, ok := r.word(n, at, wantName)
	if !ok {
		return ""
	}
	if !isName(name) {
		r.faults.add(n, at, "is %s; want %s", quote(name), wantName)
		return ""
	}
	if first, taken := lines[name]; taken {
		r.faults.add(n, at, "%s is the name of the rule in line %d too; want another one", quote(name), first)
		return ""
	}
	lines[name] = lineOf(n)
	return name
}

// otherThanText is what a name is taken for that would be one in quotes; empty if it
// is not that.
func otherThanText(n ast.Node) string {
	if n == nil || n.GetToken() == nil || !isName(n.GetToken().Value) {
		return ""
	}
	switch n.(type) {
	case *ast.IntegerNode:
		return "a number"
	case *ast.BoolNode:
		return "a truth value"
	}
	return ""
}

// isName is narrow because a name becomes part of stored keys, of header fields
// and of metrics. A point would make it look like a part of a policy there.
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

// Capacity is the most units that one call can take of a policy.
func Capacity(p algo.Policy) int64 {
	res, err := p.Peek(nil, time.Unix(0, 0), 1)
	if err != nil {
		return 0
	}
	return res.Limit
}

func (r *reader) affordable(n ast.Node, at string, rule *Rule) {
	if most := Capacity(rule.Policy); rule.Cost.Units > most {
		r.faults.add(n, at, "is %d, and the policy %v never has more than %d at a time, so that all would be denied; want at most that, or a larger policy",
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
			err = fmt.Errorf("%v is named twice; name it once", f)
		}
		if err != nil {
			r.faults.add(n, at, "%v", err)
			return
		}
		fields = append(fields, f)
	})
	return fields
}

// fieldText is the text of a field. In a list within braces the library takes
// header:X-Team, which is text in YAML, for a mapping of header to X-Team.
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
			r.faults.add(n, at, "is %s; want a whole number from 1, or bytes", quote(s))
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
			r.faults.add(n, at, "is %s; want a method, such as GET", quote(m))
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
			r.faults.add(n, at, "is %s; %s", quote(p), problem)
			return
		}
		paths = append(paths, p)
	})
	return paths
}

// badPattern is what is wrong with one of Rule.Paths.
func badPattern(p string) string {
	tree, _ := strings.CutSuffix(p, "/*")
	switch {
	case strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "want characters that can be shown, such as /login"
	case !strings.HasPrefix(p, "/"):
		return "want a path that begins with /, such as /login or /api/*"
	case strings.Contains(tree, "*"):
		return "want * at the end only, behind a /, such as /api/*"
	case strings.ContainsAny(p, "?#%"):
		return "want the path alone, decoded and without a query, such as /login"
	case tree != "" && cleanPath(tree) != tree:
		return "want it as it is compared, " + cleanPath(tree)
	}
	return ""
}
