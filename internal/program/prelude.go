package program

import (
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

// prelude is algo.LuaPrelude: the numbers of its constants, and its other definitions as matches of
// definition.
type prelude struct {
	numbers     map[string]string
	definitions [][]string
}

var parsePrelude = sync.OnceValue(func() prelude {
	text, numbers := algo.LuaPrelude(), map[string]string{}
	for _, found := range constants.FindAllStringSubmatch(text, -1) {
		values := strings.Split(found[2], ", ")
		for i, name := range strings.Split(found[1], ", ") {
			numbers[name] = values[i]
		}
	}
	return prelude{numbers, definition.FindAllStringSubmatch(constants.ReplaceAllString(text, ""), -1)}
})

// withPrelude puts the definitions of the prelude that a script uses before the script, and replaces
// the names of constants with their numbers. Redis creates all functions of a script at each run, so
// unused functions would cost time. It creates functions faster if they use no local variable of the
// script.
func withPrelude(script string) string {
	p, used := parsePrelude(), map[string]bool{}
	markUsed := func(text string) { // also marks names in comments, which does no harm
		for _, name := range word.FindAllString(text, -1) {
			used[name] = true
		}
	}
	markUsed(script)
	for _, found := range slices.Backward(p.definitions) { // a definition uses only those before it
		if slices.ContainsFunc(strings.Split(found[1], ", "), func(name string) bool { return used[name] }) {
			markUsed(found[0])
			script = found[0] + script
		}
	}
	return word.ReplaceAllStringFunc(script, func(name string) string {
		if number, ok := p.numbers[name]; ok {
			return number
		}
		return name
	})
}
