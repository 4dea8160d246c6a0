package program

import (
	"regexp"
	"slices"
	"strings"
)

// definition is a statement of Lua that defines local names.
type definition struct {
	names []string
	text  string
}

// definitions splits a text of Lua into its statements, without the comments between them. Each
// statement begins in the first column; its further lines are indented, or end it.
func definitions(text string) []definition {
	var all []definition
	for line := range strings.Lines(text) {
		switch last := len(all) - 1; {
		case strings.HasPrefix(line, "--") || strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "end") || strings.HasPrefix(line, "}") || line[0] == ' ':
			all[last].text += line
		default:
			all = append(all, definition{names: namesIn(line), text: line})
		}
	}
	return all
}

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// namesIn returns the names that a statement defines, by its first line.
func namesIn(line string) []string {
	line = strings.TrimPrefix(line, "local ")
	if function, ok := strings.CutPrefix(line, "function "); ok {
		return word.FindAllString(function, 1)
	}
	names, _, _ := strings.Cut(line, "=")
	return word.FindAllString(names, -1)
}

// needed returns the definitions that a script needs, and those that they need, in their order.
// A name in a comment counts too, which does no harm.
func needed(all []definition, script string) []string {
	used, need := words(script), make([]bool, len(all))
	for found := true; found; {
		found = false
		for i, d := range all {
			if !need[i] && slices.ContainsFunc(d.names, func(name string) bool { return used[name] }) {
				need[i], found = true, true
				for name := range words(d.text) {
					used[name] = true
				}
			}
		}
	}
	var texts []string
	for i, d := range all {
		if need[i] {
			texts = append(texts, d.text)
		}
	}
	return texts
}

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range word.FindAllString(text, -1) {
		set[w] = true
	}
	return set
}
