package program

import (
	"regexp"
	"strings"
)

var constants = regexp.MustCompile(`^local ([A-Z]+(?:, [A-Z]+)*) = (-?\d+(?:, -?\d+)*)\s*(?:--.*)?\n$`)

// inlined returns the definitions other than those of constants, and a function that puts the numbers
// for their names into a text. Functions of Lua that use a local variable are slow to make.
func inlined(all []definition) (others []definition, inline func(text string) string) {
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
