package program

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/algo"
)

var (
	word = regexp.MustCompile(`[A-Za-z_]\w*`)
	// definition matches a statement of the prelude and the names that it defines. The statement begins
	// in the first column. Its other lines are indented, or are its end.
	definition = regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*).*\n(?:(?: |end|}).*\n)*`)
	// constants matches the definition of constants.
	constants = regexp.MustCompile(`(?m)^local ([A-Z]+(?:, [A-Z]+)*) = (-?\d+(?:, -?\d+)*)\s*(?:--.*)?\n`)
)

// prelude is algo.LuaPrelude: the numbers of its constants, and its other definitions.
type prelude struct {
	numbers     map[string]string
	definitions []preludeDefinition
}

type preludeDefinition struct {
	names, words []string // those that it defines, and all
	text         string
}

var parsePrelude = sync.OnceValue(func() *prelude {
	text, p := algo.LuaPrelude(), &prelude{numbers: map[string]string{}}
	for _, found := range constants.FindAllStringSubmatch(text, -1) {
		values := strings.Split(found[2], ", ")
		for i, name := range strings.Split(found[1], ", ") {
			p.numbers[name] = values[i]
		}
	}
	for _, found := range definition.FindAllStringSubmatch(constants.ReplaceAllString(text, ""), -1) {
		p.definitions = append(p.definitions, preludeDefinition{strings.Split(found[1], ", "), word.FindAllString(found[0], -1), p.inline(found[0])})
	}
	return p
})

// inline replaces the names of constants with their numbers. Redis creates functions faster if they use
// no local variable of the script.
func (p *prelude) inline(text string) string {
	return word.ReplaceAllStringFunc(text, func(name string) string { return cmp.Or(p.numbers[name], name) })
}

// withPrelude puts the definitions of the prelude that a script uses before the script. Redis creates
// all functions of a script at each run, so unused functions would cost time.
func withPrelude(script string) string {
	p, used := parsePrelude(), map[string]bool{}
	markUsed := func(words []string) { // also marks words in comments, which does no harm
		for _, name := range words {
			used[name] = true
		}
	}
	markUsed(word.FindAllString(script, -1))
	script = p.inline(script)
	for _, d := range slices.Backward(p.definitions) { // a definition uses only those before it
		if slices.ContainsFunc(d.names, func(name string) bool { return used[name] }) {
			markUsed(d.words)
			script = d.text + script
		}
	}
	return script
}
