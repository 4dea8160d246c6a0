package trace

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/errtext"
)

const (
	maxLine  = 64<<10 - 1
	maxTrace = 16 << 20
)

// Parse parses a trace. Its errors have the name and the line, from 1.
func Parse(r io.Reader, name string) (*Trace, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	if err == nil && len(text) > maxTrace {
		err = fmt.Errorf("the trace is longer than %d bytes", maxTrace)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := parser{trace: Trace{name: name, shown: columns[:usual]}}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\uFEFF")) { // some editors write it
		p.number++
		if err := p.line(strings.TrimRight(line, "\r\n")); err != nil {
			return nil, err
		}
	}
	if !p.running {
		return nil, fmt.Errorf("%s: not a trace: there is no event, a line such as @0s KEY 1", name)
	}
	return &p.trace, nil
}

type parser struct {
	trace   Trace
	number  int
	running bool // there was an event
	showing bool // there was a show line
	column  int  // the policy that the next policy line sets
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", p.trace.name, p.number, fmt.Errorf(format, args...))
}

func (p *parser) line(text string) error {
	if len(text) > maxLine {
		return p.fail("the line is longer than %d bytes", maxLine)
	}
	for word := range strings.FieldsSeq(text) {
		// A terminal would interpret control characters.
		if !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return p.fail("the word %s has characters that are not printable; want UTF-8 text", errtext.Quote(word))
		}
	}
	text, comment := cut(text, comments)
	words := strings.Fields(text)
	l := line{number: p.number, text: text + comment}
	var err error
	switch {
	case len(words) == 0:
	case words[0] == "policy":
		err = p.policy(&l, strings.TrimSpace(strings.TrimSpace(text)[len("policy"):]))
	case words[0] == "show":
		err = p.show(words[1:])
	case strings.HasPrefix(words[0], "@"):
		l.text = text
		l.event = &event{arrow: -1, comment: comment}
		err = p.event(&l)
	default:
		err = p.fail("unknown word %s; a line is policy SPEC, show COLUMN ..., @OFFSET KEY COST -> ..., or a # comment", errtext.Quote(words[0]))
	}
	p.trace.lines = append(p.trace.lines, l)
	return err
}

// White space, as in unicode.IsSpace, is before a comment and around an arrow.
const space = `[\s\v\x{85}\p{Z}]`

var (
	comments = regexp.MustCompile(`(?:^|` + space + `)(#)`)
	arrows   = regexp.MustCompile(space + `(->)(?:` + space + `|$)`)
)

// cut splits a line before the first match of the pattern's group.
func cut(s string, pattern *regexp.Regexp) (before, after string) {
	if match := pattern.FindStringSubmatchIndex(s); match != nil {
		return s[:match[2]], s[match[2]:]
	}
	return s, ""
}

func (p *parser) policy(l *line, spec string) error {
	policy, err := costed.Parse(spec)
	if err != nil {
		return p.fail("%s", strings.TrimPrefix(err.Error(), "compose: "))
	}
	if p.running && p.column == p.trace.policies {
		return p.fail("there are %d policies before the first event, so at most that many can be replaced", p.trace.policies)
	}
	l.policy, l.column = &policy, p.column
	p.column++
	p.trace.policies = max(p.trace.policies, p.column)
	return nil
}

func (p *parser) show(words []string) error {
	switch {
	case p.running:
		return p.fail("show must come before the first event")
	case p.showing:
		return p.fail("show is given twice")
	case len(words) == 0:
		return p.fail("show needs a column: %s", columnNames(columns[:]))
	}
	var shown []column
	for i, word := range words {
		c := slices.IndexFunc(columns[:], func(c column) bool { return c.name == word })
		switch {
		case c < 0:
			return p.fail("unknown column %s; known are %s", errtext.Quote(word), columnNames(columns[:]))
		case slices.Contains(words[:i], word):
			return p.fail("column %s is shown twice", word)
		}
		shown = append(shown, columns[c])
	}
	p.showing, p.trace.shown = true, shown
	return nil
}

func (p *parser) event(l *line) error {
	if p.trace.policies == 0 {
		return p.fail("the event has no policy; a trace begins with policy SPEC")
	}
	p.running, p.column = true, 0
	left, right := cut(l.text, arrows)
	if right != "" {
		l.event.arrow = utf8.RuneCountInString(left)
	}
	l.text = strings.TrimRightFunc(left, unicode.IsSpace)
	if err := p.left(l.event, strings.Fields(left)); err != nil {
		return err
	}
	if err := p.right(l.event, strings.Fields(strings.TrimPrefix(right, "->"))); err != nil && p.trace.invalid == nil {
		p.trace.invalid = err
	}
	return nil
}

// left reads @OFFSET KEY COST.
func (p *parser) left(e *event, words []string) error {
	if len(words) < 3 {
		return p.fail("%s: an event is @OFFSET KEY COST", errtext.Quote(strings.Join(words, " ")))
	}
	if len(words) > 3 {
		return p.fail("unexpected word %s; after @OFFSET KEY COST comes ->", errtext.Quote(words[3]))
	}
	var err error
	if e.at, err = time.ParseDuration(words[0][1:]); err != nil {
		return p.fail("offset %s: want a duration, such as @0s or @1m30s", errtext.Quote(words[0]))
	}
	if at := epoch.Add(e.at); algo.Instant(at) != at.UnixMicro() { // a policy could not tell such times apart
		return p.fail("offset %s is before 1970 or after September 2112; @0s is the first instant of 2000", errtext.Quote(words[0]))
	}
	e.key = words[1]
	colon := strings.Index(words[2], ":") + 1
	op, known := operations[words[2][:colon]]
	e.op = op
	if e.cost, err = strconv.ParseInt(words[2][colon:], 10, 64); err != nil || e.cost < 0 || !known {
		return p.fail("cost %s: want a whole number of at least 0, alone or after peek:, refund: or charge:", errtext.Quote(words[2]))
	}
	return nil
}

// right reads the answers.
func (p *parser) right(e *event, words []string) error {
	if len(words) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(" "+strings.Join(words, " ")+" ", " | ") {
		answer, err := p.answer(strings.Fields(part))
		if err != nil {
			return err
		}
		e.answers = append(e.answers, answer)
	}
	if n := len(e.answers); n != p.trace.policies {
		return p.fail("%d answers right of -> for %d policies; want one answer for each policy, separated by |", n, p.trace.policies)
	}
	return nil
}

func (p *parser) answer(words []string) ([]string, error) {
	shown := p.trace.shown
	if len(words) != len(shown) {
		return nil, p.fail("the answer %s must have a word for each column: %s; a line such as show verdict chooses the columns",
			errtext.Quote(strings.Join(words, " ")), columnNames(shown))
	}
	answer := make([]string, len(words))
	for i, word := range words {
		var ok bool
		if answer[i], ok = shown[i].canonical(word); !ok {
			return nil, p.fail("%s %s: want %s", shown[i].name, errtext.Quote(word), shown[i].values)
		}
	}
	return answer, nil
}
