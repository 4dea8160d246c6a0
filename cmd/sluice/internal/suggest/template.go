package suggest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/tokenbucket"
)

// Template is a policy with one unknown number: the count of a limit, or a burst. The zero
// Template is not valid.
type Template struct {
	before, after string // the text around the number
}

const wantMark = "write one ? in place of the number to find: the count, such as gcra ?/m, or the burst, such as gcra 100/m burst=?"

// ParseTemplate parses a policy spec with one ? in place of the count of a limit or of a burst.
// If the ? is missing or misplaced, or if the rest is not a valid policy, the error is a
// [compose.SpecError].
func ParseTemplate(spec string) (Template, error) {
	fail := func(offset int, word, problem string) (Template, error) {
		return Template{}, &compose.SpecError{Spec: spec, Offset: offset, Word: word, Problem: problem}
	}
	at := marked.FindStringIndex(spec)
	if at == nil {
		if _, err := costed.ParseRate(spec, rules.NoEnd); err != nil {
			return Template{}, err
		}
		return fail(0, spec, "the policy has no ?; "+wantMark)
	}
	var t Template
	t.before, t.after, _ = strings.Cut(spec, "?")
	_, err := t.Policy(1)
	if _, held := costed.ParseRate(t.before+"1"+t.after, rules.NoEnd); err == nil && held != nil {
		return Template{}, t.showMark(held)
	}
	switch word := spec[at[0]:at[1]]; {
	case strings.Contains(t.after, "?"):
		return fail(len(t.before)+1+strings.IndexByte(t.after, '?'), "?", "the policy has a second ?; "+wantMark)
	case !strings.HasPrefix(word, "?/") && word != "burst=?":
		return fail(at[0], word, fmt.Sprintf("%s: ? is not allowed here; %s", errtext.Quote(word), wantMark))
	}
	if _, larger := t.Policy(1 << 20); err != nil && larger != nil { // sometimes only small numbers are not valid
		return Template{}, t.showMark(err)
	}
	t.before, t.after, _ = strings.Cut(strings.Join(strings.Fields(spec), " "), "?")
	return t, nil
}

// marked matches a word with a ?.
var marked = regexp.MustCompile(`[^\s();]*\?[^\s();]*`)

// showMark puts the ? into an error about the policy with the number 1.
func (t Template) showMark(err error) error {
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		bad.Spec = t.String()
		word := bad.Spec[bad.Offset:][:len(bad.Word)]
		bad.Problem, bad.Word = strings.ReplaceAll(bad.Problem, bad.Word, word), word
	}
	return err
}

// CountOf returns the template of a policy with the count of its limit as the unknown number. p is
// not a stack.
func CountOf(p algo.Policy) Template {
	name, rest, _ := strings.Cut(p.String(), " ")
	count, after, _ := strings.Cut(rest, "/")
	if burst := burstOf(p); strconv.FormatInt(burst, 10) == count { // String leaves it out, because it is the default
		end := strings.IndexAny(after+" ", " ;")
		after = fmt.Sprintf("%s burst=%d%s", after[:end], burst, after[end:])
	}
	return Template{name + " ", "/" + after}
}

// burstOf returns the option burst of a policy, or 0 if it is not given.
func burstOf(p algo.Policy) int64 {
	switch p := p.(type) {
	case gcra.Policy:
		return p.Options().Burst
	case tokenbucket.Policy:
		return p.Options().Burst
	case *compose.Penalty:
		return burstOf(p.Inner())
	}
	return 0
}

// Policy returns the policy with the number n.
func (t Template) Policy(n int64) (costed.Policy, error) {
	return costed.Parse(t.before + strconv.FormatInt(n, 10) + t.after)
}

// String returns the spec with the ?, and single spaces.
func (t Template) String() string { return t.before + "?" + t.after }
