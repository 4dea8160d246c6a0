package program

import (
	"regexp"
	"slices"
	"strings"
)

// definition is a Lua statement that defines local names.
type definition struct {
	names []string
	text  string
}

// parseDefinitions splits Lua code into its statements and drops the comments between them. Each
// statement begins in the first column. Its other lines are indented, or are its end.
func parseDefinitions(text string) []definition {
	var all []definition
	for line := range strings.Lines(text) {
		switch last := len(all) - 1; {
		case strings.HasPrefix(line, "--") || strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "end") || strings.HasPrefix(line, "}") || line[0] == ' ':
			all[last].text += line
		default:
			all = append(all, definition{names: definedNames(line), text: line})
		}
	}
	return all
}

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// definedNames returns the names that the first line of a statement defines.
func definedNames(line string) []string {
	line = strings.TrimPrefix(line, "local ")
	if function, ok := strings.CutPrefix(line, "function "); ok {
		return word.FindAllString(function, 1)
	}
	names, _, _ := strings.Cut(line, "=")
	return word.FindAllString(names, -1)
}

// neededBy returns the definitions that a script uses, directly or indirectly, in their order. It also
// counts names in comments, which does no harm.
func neededBy(all []definition, script string) []string {
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

// constants matches the definition of constants.
var constants = regexp.MustCompile(`^local ([A-Z]+(?:, [A-Z]+)*) = (-?\d+(?:, -?\d+)*)\s*(?:--.*)?\n$`)

// splitConstants returns the definitions that do not define constants, and a function that replaces the
// names of constants with their numbers. Redis creates Lua functions faster if they use no local
// variable of the script.
func splitConstants(all []definition) (others []definition, inline func(text string) string) {
	numbers := map[string]string{}
	for _, d := range all {
		found := constants.FindStringSubmatch(d.text)
		if found == nil {
			others = append(others, d)
			continue
		}
		values := strings.Split(found[2], ", ")
		for i, name := range d.names {
			numbers[name] = values[i]
		}
	}
	return others, func(text string) string {
		return word.ReplaceAllStringFunc(text, func(name string) string {
			if number, ok := numbers[name]; ok {
				return number
			}
			return name
		})
	}
}
