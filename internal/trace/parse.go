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
)

const (
	maxLine  = 64 << 10
	maxTrace = 16 << 20
)

// Parse reads a trace. Errors call it by name and number its lines from 1.
func Parse(r io.Reader, name string) (*Trace, error) {
	p := parser{trace: Trace{name: name, shown: columns[:usual]}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() && lines.Err() == nil { // after an error, half a line
		p.number++
		if p.size += len(lines.Bytes()) + 1; p.size > maxTrace {
			return nil, p.fail("the trace is longer than %d bytes", maxTrace)
		}
		text := strings.TrimRight(lines.Text(), "\r")
		if p.number == 1 {
			text = strings.TrimPrefix(text, "\uFEFF") // some editors begin a file with it
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
	running bool // an event has been seen
	showing bool // a show line has been seen
	column  int  // the policy that the next policy line sets
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", p.trace.name, p.number, fmt.Errorf(format, args...))
}

func (p *parser) line(text string) error {
	for word := range strings.FieldsSeq(text) {
		if !shows(word) { // a terminal that prints the trace would do as it says
			return p.fail("the word %s has characters that cannot be shown; want text in UTF-8", quote(word))
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
		err = p.fail("unknown word %s; a line is policy SPEC, show COLUMN ..., @OFFSET KEY COST -> ..., or a # comment", quote(words[0]))
	}
	p.trace.lines = append(p.trace.lines, l)
	return err
}

// shows reports whether a word can be shown as it is.
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
		return p.fail("the policies before the first event are %d, no more can replace them", p.trace.policies)
	}
	l.policy, l.column = policy, p.column
	p.column++
	p.trace.policies = max(p.trace.policies, p.column)
	return nil
}

func (p *parser) show(words []string) error {
	switch {
	case p.running:
		return p.fail("show comes before the first event")
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
			return p.fail("unknown column %s; known are %s", quote(word), columnNames(columns[:]))
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
		return p.fail("an event before any policy; a trace begins with policy SPEC")
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
		return p.fail("%s: an event is @OFFSET KEY COST", quote(strings.Join(words, " ")))
	}
	if len(words) > 3 {
		return p.fail("unexpected word %s; after @OFFSET KEY COST comes ->", quote(words[3]))
	}
	var err error
	if e.at, err = time.ParseDuration(words[0][1:]); err != nil {
		return p.fail("offset %s: want a duration, such as @0s or @1m30s", quote(words[0]))
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
		return p.fail("cost %s: want a whole number from 0, or one after peek:, refund: or charge:", quote(words[2]))
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
		return p.fail("answers right of ->: %d, policies: %d; want an answer for each, with | between", n, p.trace.policies)
	}
	return nil
}

func (p *parser) answer(words []string) ([]string, error) {
	shown := p.trace.shown
	if len(words) != len(shown) {
		return nil, p.fail("the answer %s has %d words; want %d: %s",
			quote(strings.Join(words, " ")), len(words), len(shown), columnNames(shown))
	}
	answer := make([]string, len(words))
	for i, word := range words {
		var ok bool
		if answer[i], ok = shown[i].canonical(word); !ok {
			return nil, p.fail("%s %s: want %s", shown[i].name, quote(word), shown[i].values)
		}
	}
	return answer, nil
}

// quote keeps hostile words out of messages: escaped, and cut when long.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q...", most, s)
	}
	return fmt.Sprintf("%q", s)
}
