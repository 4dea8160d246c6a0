package compose

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
)

// maxSpec is the longest spec, in bytes, that ParsePolicy reads. A stack of 64
// parts that say all that can be said is shorter.
const maxSpec = 16 << 10

// ParsePolicy reads a policy from its spec, one line in any of these forms:
//
//	ALGORITHM LIMIT [option=value ...]
//	all(SPEC; SPEC ...)
//
// where LIMIT is COUNT/PERIOD as [algo.ParseLimit] reads it, such as 100/m, 100/min or
// 5/250ms, and the algorithms and their options are
//
//	gcra          burst=N  cost=N
//	tokenbucket   burst=N  refill=continuous|interval  cost=N
//	fixedwindow   align=first|clock  offset=DURATION  cost=N
//	movingwindow  slots=N  trailing=weighted|whole  cost=N
//
// with N from 1; offset is for align=clock. The first value named is the default; the
// default burst is the limit's count, of slots and cost it is 1, of offset 0. A cost is
// for those who step the policy themselves, and for replays: a Limiter goes by
// Rule.Cost, and refuses a rule whose policy has a cost of its own. Words are separated
// by white space. The String method of a policy is the inverse: it writes a spec of the
// same meaning, without what is default.
//
// Every error is a [*SpecError], which knows the word that is at fault.
func ParsePolicy(spec string) (algo.Policy, error) {
	p := parser{spec: spec}
	return p.parse()
}

// ParseRulePolicy is ParsePolicy for the policy of a [Rule]. It refuses cost=, because
// Rule.Cost says what a call costs, and its errors do not suggest it.
func ParseRulePolicy(spec string) (algo.Policy, error) {
	p := parser{spec: spec, ofRule: true}
	return p.parse()
}

func (p *parser) parse() (algo.Policy, error) {
	if len(p.spec) > maxSpec {
		return nil, p.fail(word{}, "a spec is at most %d bytes long, this has %d", maxSpec, len(p.spec))
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	if w := p.next(); w.text != "" {
		return nil, p.fail(w, "unexpected %s after the end of the policy", quote(w.text))
	}
	return policy, nil
}

// SpecError says what is wrong with a spec, where, and what would be accepted.
type SpecError struct {
	Rule    string // the name of the rule that has the spec, if New parsed it
	Spec    string
	Offset  int    // of Word in Spec, in bytes
	Word    string // the word at fault; empty where one is missing
	Problem string
	Err     error // what the algorithm said, if that was it; else nil
}

// Error is one line: the column, counted in characters from 1, and the problem.
func (e *SpecError) Error() string {
	column := utf8.RuneCountInString(e.Spec[:e.Offset]) + 1
	rule := ""
	if e.Rule != "" && e.Rule != e.Spec {
		rule = "rule " + quote(e.Rule) + ": "
	}
	return fmt.Sprintf("compose: %spolicy %s, column %d: %s", rule, quote(e.Spec), column, e.Problem)
}

// withCaret adds the two lines of Caret to the message, if a terminal can show them.
func (e *SpecError) withCaret() error {
	if unprintable := func(r rune) bool { return !unicode.IsPrint(r) }; len(e.Spec) > maxQuoted || strings.ContainsFunc(e.Spec, unprintable) {
		return e
	}
	return fmt.Errorf("%w\n%s", e, e.Caret())
}

// Unwrap returns Err.
func (e *SpecError) Unwrap() error { return e.Err }

// Caret is two lines for a terminal: the spec, and a caret below the word.
func (e *SpecError) Caret() string {
	blank := func(r rune) rune {
		if unicode.IsSpace(r) {
			return r
		}
		return ' '
	}
	carets := max(1, utf8.RuneCountInString(e.Word))
	return e.Spec + "\n" + strings.Map(blank, e.Spec[:e.Offset]) + strings.Repeat("^", carets)
}

// maxQuoted is the most bytes of a word or spec that a message shows.
const maxQuoted = 100

// quote keeps hostile words out of messages: escaped, and cut when long.
func quote(s string) string {
	if len(s) > maxQuoted {
		return fmt.Sprintf("%.*q...", maxQuoted, s)
	}
	return fmt.Sprintf("%q", s)
}

type word struct {
	text   string
	offset int
}

type parser struct {
	spec   string
	pos    int
	ofRule bool // the policy is that of a Rule, which has its own cost
}

func (p *parser) fail(w word, format string, args ...any) *SpecError {
	problem := fmt.Sprintf(format, args...)
	if strings.HasSuffix(w.text, ",") {
		problem += `; words are parted by spaces, the policies of all( ) by ";", nothing by ","`
	}
	return &SpecError{Spec: p.spec, Offset: w.offset, Word: w.text, Problem: problem}
}

// peek is the next word: one of ( ) ; or a run of anything else up to white
// space or one of these. At the end it is empty.
func (p *parser) peek() word {
	rest := strings.TrimLeftFunc(p.spec[p.pos:], unicode.IsSpace)
	w := word{offset: len(p.spec) - len(rest)}
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

func isPunct(r rune) bool { return r == '(' || r == ')' || r == ';' }

func (p *parser) next() word {
	w := p.peek()
	p.pos = w.offset + len(w.text)
	return w
}

// ends reports whether no more words belong to the present policy.
func (w word) ends() bool { return w.text == "" || isPunct(rune(w.text[0])) }

func (p *parser) policy() (algo.Policy, error) {
	name := p.next()
	if name.text == "all" {
		return p.all(name)
	}
	if name.ends() {
		return nil, p.missing(name, "a policy, an algorithm and its limit such as gcra 100/m; "+known())
	}
	i := slices.IndexFunc(algorithms[:], func(a algorithm) bool { return a.name == name.text })
	switch {
	case i >= 0:
		return p.algorithm(&algorithms[i])
	case startsLikeLimit(name.text):
		return nil, p.missing(name, "an algorithm; the limit follows it, for instance "+gcraExample(name.text)+"; "+known())
	}
	return nil, p.fail(name, "unknown algorithm %s; %s%s", quote(name.text), known(), didYouMean(name.text, append(algorithmNames(), "all"), ""))
}

// startsLikeLimit tells a limit, however wrong it is, from a mistyped algorithm.
func startsLikeLimit(s string) bool { return strings.ContainsAny(s[:1], "+-.0123456789/") }

// gcraExample is the spec of a gcra with that limit, or with another one if gcra does not
// take that.
func gcraExample(limit string) string {
	if _, err := ParsePolicy("gcra " + limit); err != nil {
		return "gcra 100/m"
	}
	return "gcra " + limit
}

func (p *parser) missing(w word, what string) error {
	if w.text == "" {
		return p.fail(w, "the spec ends where there should be %s", what)
	}
	return p.fail(w, "found %s where there should be %s", quote(w.text), what)
}

func known() string {
	return "known are " + strings.Join(algorithmNames(), ", ") + " and all(SPEC; SPEC ...)"
}

func (p *parser) all(name word) (algo.Policy, error) {
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
				return nil, p.refused(name, err, "all(SPEC; SPEC ...) takes at most %d policies, those of an inner all counted too", maxParts)
			}
			return stack, nil
		default:
			return nil, p.missing(w, `";" and another policy, or ")"`)
		}
	}
}

// refused is a refusal of words that are each well-formed, told in the words of
// specs. What err says is in those of Go.
func (p *parser) refused(w word, err error, format string, args ...any) error {
	e := p.fail(w, format, args...)
	e.Err = err
	return e
}

func (p *parser) algorithm(a *algorithm) (algo.Policy, error) {
	limit := p.peek()
	if limit.ends() || strings.Contains(limit.text, "=") && !strings.Contains(limit.text, "/") {
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
	if err != nil {
		return nil, p.refused(blame(a, given, limit), err, "%s", a.says(err, s))
	}
	return policy, nil
}

// says is a refusal in the words of specs, or of Go where there are no other.
func (a *algorithm) says(err error, s settings) string {
	if a.refusal == nil {
		return err.Error()
	}
	return a.refusal(s)
}

// blame is the option that a refusal is about, or the limit where it was not given.
func blame(a *algorithm, given map[string]word, limit word) word {
	if w, ok := given[a.blamed]; ok {
		return w
	}
	return limit
}

func (p *parser) badLimit(limit word, err error) error {
	const longest = 100 // of what could be a limit
	if len(limit.text) > longest {
		return p.fail(limit, "a limit is COUNT/PERIOD, for instance 100/m; this word has %d bytes", len(limit.text))
	}
	problem := strings.TrimPrefix(err.Error(), fmt.Sprintf("algo: limit %q: ", limit.text))
	e := p.fail(limit, "limit %s: %s", quote(limit.text), problem)
	e.Err = err
	return e
}

// options reads the option=value words into s, and returns them by option.
func (p *parser) options(a *algorithm, s *settings) (given map[string]word, err error) {
	given = make(map[string]word)
	for !p.peek().ends() {
		w := p.next()
		name, value, ok := strings.Cut(w.text, "=")
		if !ok {
			return nil, p.fail(w, "%s is not an option=value, written without spaces; %s", quote(w.text), p.takes(a))
		}
		o, err := p.option(a, w, name)
		if err != nil {
			return nil, err
		}
		if first, ok := given[name]; ok {
			return nil, p.fail(w, "%s= is given twice, first as %s", name, quote(first.text))
		}
		given[name] = w
		if !o.set(s, value) {
			return nil, p.fail(w, "%s= takes %s, not %s", name, o.values, quote(value))
		}
	}
	return given, nil
}

// option finds the option of that name, if the algorithm takes it here.
func (p *parser) option(a *algorithm, w word, name string) (*option, error) {
	i := slices.IndexFunc(options[:], func(o option) bool { return o.name == name })
	switch {
	case i < 0:
		return nil, p.fail(w, "unknown option %s; %s%s", quote(name), p.takes(a), didYouMean(name, p.taken(a), "="))
	case p.ofRule && name == costOption:
		return nil, p.fail(w, "cost= is not an option of a rule's policy; give the rule the cost: the field cost beside policy in limits.yaml, Rule.Cost in Go")
	case !slices.Contains(a.options, name):
		return nil, p.fail(w, "%s= is an option of %s; %s", name, strings.Join(takers(name), " and "), p.takes(a))
	}
	return &options[i], nil
}

// takes lists the options of the algorithm.
func (p *parser) takes(a *algorithm) string {
	var words []string
	for _, name := range p.taken(a) {
		words = append(words, name+"="+needs(name))
	}
	return a.name + " takes " + strings.Join(words, ", ")
}

// taken are the options that the algorithm takes here.
func (p *parser) taken(a *algorithm) []string {
	if !p.ofRule {
		return a.options
	}
	return slices.DeleteFunc(slices.Clone(a.options), func(name string) bool { return name == costOption })
}
