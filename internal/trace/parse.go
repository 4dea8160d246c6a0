package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/errtext"
)

const (
	maxLine  = 64 << 10
	maxTrace = 16 << 20
)

// Parse parses a trace. Its errors have the name and the line, from 1.
func Parse(r io.Reader, name string) (*Trace, error) {
	p := parser{trace: Trace{name: name, shown: columns[:usual]}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() && lines.Err() == nil { // after an error the line is incomplete
		p.number++
		if p.size += len(lines.Bytes()) + 1; p.size > maxTrace {
			return nil, p.fail("the trace is longer than %d bytes", maxTrace)
		}
		text := strings.TrimRight(lines.Text(), "\r")
		if p.number == 1 {
			text = strings.TrimPrefix(text, "\uFEFF") // some editors write it
		}
		if err := p.line(text); err != nil {
			return nil, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		p.number++
		return nil, p.fail("the line is longer than %d bytes", maxLine-1)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case !p.running:
		return nil, fmt.Errorf("%s: not a trace: there is no event, a line such as @0s KEY 1", name)
	}
	return &p.trace, nil
}

type parser struct {
	trace   Trace
	number  int
	size    int
	running bool // there was an event
	showing bool // there was a show line
	column  int  // the policy that the next policy line sets
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", p.trace.name, p.number, fmt.Errorf(format, args...))
}

func (p *parser) line(text string) error {
	for word := range strings.FieldsSeq(text) {
		if !shows(word) { // a terminal would interpret control characters
			return p.fail("the word %s has characters that are not printable; want UTF-8 text", errtext.Quote(word))
		}
	}
	text, comment := cutComment(text)
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

// shows reports whether a word is printable.
func shows(word string) bool {
	return utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// cutComment splits a line before the first word that begins with #.
func cutComment(s string) (text, comment string) {
	space := true
	for i, r := range s {
		if r == '#' && space {
			return s[:i], s[i:]
		}
		space = unicode.IsSpace(r)
	}
	return s, ""
}

func (p *parser) policy(l *line, spec string) error {
	policy, err := compose.ParsePolicy(spec)
	if err != nil {
		return p.fail("%s", strings.TrimPrefix(err.Error(), "compose: "))
	}
	if p.running && p.column == p.trace.policies {
		return p.fail("there are %d policies before the first event, so at most that many can be replaced", p.trace.policies)
	}
	l.policy, l.column = policy, p.column
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
	left, right, arrow := cutArrow(l.text)
	if arrow {
		l.event.arrow = utf8.RuneCountInString(left)
	}
	l.text = strings.TrimRightFunc(left, unicode.IsSpace)
	if err := p.left(l.event, strings.Fields(left)); err != nil {
		return err
	}
	return p.right(l.event, strings.Fields(right))
}

// cutArrow splits a line around the first word that is an arrow.
func cutArrow(s string) (left, right string, found bool) {
	for i := 0; ; {
		n := strings.Index(s[i:], "->")
		if n < 0 {
			return s, "", false
		}
		i += n
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		after, _ := utf8.DecodeRuneInString(s[i+2:])
		if unicode.IsSpace(before) && (i+2 == len(s) || unicode.IsSpace(after)) {
			return s[:i], s[i+2:], true
		}
		i += 2
	}
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
	e.key = words[1]
	n := words[2]
	for v := len(verbs) - 1; v >= 0; v-- {
		if rest, ok := strings.CutPrefix(n, verbs[v]); ok {
			e.verb, n = verb(v), rest
			break
		}
	}
	if e.cost, err = strconv.ParseInt(n, 10, 64); err != nil || e.cost < 0 {
		return p.fail("cost %s: want a whole number of at least 0, alone or after peek:, refund: or charge:", errtext.Quote(words[2]))
	}
	return nil
}

// right reads the answers.
func (p *parser) right(e *event, words []string) error {
	if len(words) == 0 {
		return nil
	}
	for {
		end := slices.Index(words, "|")
		last := end < 0
		if last {
			end = len(words)
		}
		answer, err := p.answer(words[:end])
		if err != nil {
			return err
		}
		e.answers = append(e.answers, answer)
		if last {
			break
		}
		words = words[end+1:]
	}
	if n := len(e.answers); n != p.trace.policies {
		return p.fail("%d answers right of -> for %d policies; want one answer for each policy, separated by |", n, p.trace.policies)
	}
	return nil
}

func (p *parser) answer(words []string) ([]string, error) {
	shown := p.trace.shown
	if len(words) != len(shown) {
		return nil, p.fail("the answer %s has %d words; want %d: %s",
			errtext.Quote(strings.Join(words, " ")), len(words), len(shown), columnNames(shown))
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
