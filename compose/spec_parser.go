package compose

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/errtext"
)

// maxSpec is the longest spec that ParsePolicy reads, in bytes. A stack of 64 parts with all
// options is shorter.
const maxSpec = 16 << 10

type specParser struct {
	spec   string
	pos    int
	ofRule bool // refuse cost=
}

type specWord struct {
	text   string
	offset int
}

func (p *specParser) parse() (algo.Policy, error) {
	if len(p.spec) > maxSpec {
		return nil, p.fail(specWord{}, "a spec is at most %d bytes long, this has %d", maxSpec, len(p.spec))
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	if w := p.next(); w.text != "" {
		return nil, p.fail(w, "unexpected %s after the end of the policy", errtext.Quote(w.text))
	}
	return policy, nil
}

// peek returns the next word: one of ( ) ; or a run of other characters up to one of these
// or white space. At the end of the spec the word is empty.
func (p *specParser) peek() specWord {
	rest := strings.TrimLeftFunc(p.spec[p.pos:], unicode.IsSpace)
	w := specWord{offset: len(p.spec) - len(rest)}
	end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || isPunct(r) })
	switch {
	case end < 0:
		end = len(rest)
	case end == 0:
		end = 1
	}
	w.text = rest[:end]
	return w
}

func (p *specParser) next() specWord {
	w := p.peek()
	p.pos = w.offset + len(w.text)
	return w
}

func isPunct(r rune) bool { return r == '(' || r == ')' || r == ';' }

// endsPolicy reports whether the words of the current policy end before w.
func (w specWord) endsPolicy() bool { return w.text == "" || isPunct(rune(w.text[0])) }

func (p *specParser) policy() (algo.Policy, error) {
	name := p.next()
	if name.text == "all" {
		return p.stack(name)
	}
	if name.endsPolicy() {
		return nil, p.missing(name, "a policy, an algorithm and its limit such as gcra 100/m; "+knownAlgorithms())
	}
	i := slices.IndexFunc(algorithms[:], func(a algorithm) bool { return a.name == name.text })
	switch {
	case i >= 0:
		return p.algorithm(&algorithms[i])
	case strings.ContainsAny(name.text[:1], "+-.0123456789/"): // a limit, even if it is wrong
		return nil, p.missing(name, "an algorithm; the limit follows it, for instance "+gcraExample(name.text)+"; "+knownAlgorithms())
	}
	return nil, p.fail(name, "unknown algorithm %s; %s%s", errtext.Quote(name.text), knownAlgorithms(), didYouMean(name.text, append(algorithmNames(), "all"), ""))
}

// stack reads the rest of all(SPEC; SPEC ...).
func (p *specParser) stack(all specWord) (algo.Policy, error) {
	if w := p.next(); w.text != "(" {
		return nil, p.missing(w, `"(" and the policies of all(SPEC; SPEC ...)`)
	}
	var parts []algo.Policy
	for {
		part, err := p.policy()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		switch w := p.next(); w.text {
		case ";":
		case ")":
			stack, err := All(parts...)
			if err != nil {
				return nil, p.refused(all, err, fmt.Sprintf("all(SPEC; SPEC ...) takes at most %d policies, those of an inner all counted too", maxParts))
			}
			return stack, nil
		default:
			return nil, p.missing(w, `";" and another policy, or ")"`)
		}
	}
}

// algorithm reads the limit and the options of a.
func (p *specParser) algorithm(a *algorithm) (algo.Policy, error) {
	limit := p.peek()
	if limit.endsPolicy() || strings.Contains(limit.text, "=") && !strings.Contains(limit.text, "/") {
		return nil, p.missing(limit, "the limit of "+a.name+", COUNT/PERIOD, for instance "+a.name+" 100/m")
	}
	p.next()
	var s settings
	var err error
	if s.limit, err = algo.ParseLimit(limit.text); err != nil {
		return nil, p.badLimit(limit, err)
	}
	given, err := p.options(a, &s)
	if err != nil {
		return nil, err
	}
	s.normalize()
	policy, err := a.build(s)
	if err == nil {
		return policy, nil
	}
	at, ok := given[a.faultOption]
	if !ok {
		at = limit
	}
	problem := err.Error()
	if a.fault != nil {
		problem = a.fault(s)
	}
	return nil, p.refused(at, err, problem)
}

// options reads the option=value words into s. It returns the words by the names of their
// options.
func (p *specParser) options(a *algorithm, s *settings) (given map[string]specWord, err error) {
	given = make(map[string]specWord)
	for !p.peek().endsPolicy() {
		w := p.next()
		name, value, ok := strings.Cut(w.text, "=")
		if !ok {
			return nil, p.fail(w, "%s is not an option=value, written without spaces; %s", errtext.Quote(w.text), p.optionList(a))
		}
		o, err := p.option(a, w, name)
		if err != nil {
			return nil, err
		}
		if first, ok := given[name]; ok {
			return nil, p.fail(w, "%s= is given twice, first as %s", name, errtext.Quote(first.text))
		}
		given[name] = w
		if !o.set(s, value) {
			return nil, p.fail(w, "%s= takes %s, not %s", name, o.values, errtext.Quote(value))
		}
	}
	return given, nil
}

// option returns the option with a name, or an error if a does not take it.
func (p *specParser) option(a *algorithm, w specWord, name string) (*option, error) {
	i := slices.IndexFunc(options[:], func(o option) bool { return o.name == name })
	switch {
	case i < 0:
		return nil, p.fail(w, "unknown option %s; %s%s", errtext.Quote(name), p.optionList(a), didYouMean(name, p.optionNames(a), "="))
	case p.ofRule && name == costOption:
		return nil, p.fail(w, "cost= is not an option of a rule's policy; give the rule the cost: the field cost beside policy in limits.yaml, Rule.Cost in Go")
	case !slices.Contains(a.options, name):
		return nil, p.fail(w, "%s= is an option of %s; %s", name, strings.Join(algorithmsWith(name), " and "), p.optionList(a))
	}
	return &options[i], nil
}

func (p *specParser) optionList(a *algorithm) string {
	var words []string
	for _, name := range p.optionNames(a) {
		words = append(words, name+"="+condition(name))
	}
	return a.name + " takes " + strings.Join(words, ", ")
}

func (p *specParser) optionNames(a *algorithm) []string {
	if !p.ofRule {
		return a.options
	}
	return slices.DeleteFunc(slices.Clone(a.options), func(name string) bool { return name == costOption })
}

func (p *specParser) fail(w specWord, format string, args ...any) *SpecError {
	problem := fmt.Sprintf(format, args...)
	if strings.HasSuffix(w.text, ",") {
		problem += `; separate words by spaces, and the policies of all( ) by ";", without ","`
	}
	return &SpecError{Spec: p.spec, Offset: w.offset, Word: w.text, Problem: problem}
}

func (p *specParser) missing(w specWord, what string) error {
	if w.text == "" {
		return p.fail(w, "the spec ends where there should be %s", what)
	}
	return p.fail(w, "found %s where there should be %s", errtext.Quote(w.text), what)
}

// refused returns the error for words that are valid alone but not together. The problem is
// in terms of specs, and err is in terms of Go.
func (p *specParser) refused(w specWord, err error, problem string) error {
	e := p.fail(w, "%s", problem)
	e.Err = err
	return e
}

func (p *specParser) badLimit(limit specWord, err error) error {
	if len(limit.text) > errtext.MaxQuoted {
		return p.fail(limit, "a limit is COUNT/PERIOD, for instance 100/m; this word has %d bytes", len(limit.text))
	}
	problem := strings.TrimPrefix(err.Error(), fmt.Sprintf("algo: limit %q: ", limit.text))
	return p.refused(limit, err, fmt.Sprintf("limit %q: %s", limit.text, problem))
}

func knownAlgorithms() string {
	return "known are " + strings.Join(algorithmNames(), ", ") + " and all(SPEC; SPEC ...)"
}

// gcraExample returns the spec of a gcra with the limit, or with 100/m if gcra refuses it.
func gcraExample(limit string) string {
	if _, err := ParsePolicy("gcra " + limit); err != nil {
		return "gcra 100/m"
	}
	return "gcra " + limit
}

// didYouMean returns a question for the end of a message, or "" if no known word is near.
func didYouMean(typed string, known []string, suffix string) string {
	nearest := errtext.Nearest(typed, known)
	if nearest == "" {
		return ""
	}
	question := "; did you mean " + nearest + suffix + condition(nearest) + "?"
	if strings.EqualFold(typed, nearest) {
		question += " All words are in lower case"
	}
	return question
}
