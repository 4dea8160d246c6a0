package config

import (
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// Algorithms returns the names of the algorithms of a policy, such as gcra or all(gcra; fixedwindow).
// If two policies differ in it, they cannot read each other's states.
func Algorithms(p algo.Policy) string {
	stack, ok := p.(*compose.Stack)
	if !ok {
		word, _, _ := strings.Cut(p.String(), " ")
		return word
	}
	var parts []string
	for _, part := range stack.Parts() {
		parts = append(parts, Algorithms(part))
	}
	return "all(" + strings.Join(parts, "; ") + ")"
}
