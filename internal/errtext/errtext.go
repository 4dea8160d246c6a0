// Package errtext is for error messages about mistyped words.
package errtext

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxQuoted is the maximum number of characters that Quote shows.
const MaxQuoted = 100

// Quote returns s in quotes, with control characters escaped. It cuts a word that is longer than MaxQuoted.
func Quote(s string) string {
	shown := fmt.Sprintf("%.*q", MaxQuoted, s)
	if utf8.RuneCountInString(s) > MaxQuoted {
		shown += "..."
	}
	return shown
}

// Nearest returns the known word that differs from the typed one by at most two letters, and by fewer than all but one of its
// own. It returns "" if there is none. Known words are in lower case; the case of typed does not count.
func Nearest(typed string, known []string) string {
	for most := range 3 {
		isNear := func(k string) bool { return most < len(k)-1 && differByAtMost(most, strings.ToLower(typed), k) }
		if i := slices.IndexFunc(known, isNear); i >= 0 {
			return known[i]
		}
	}
	return ""
}

// differByAtMost reports whether n insertions, deletions or changes of a letter, or swaps of
// neighbours, make b of a.
func differByAtMost(n int, a, b string) bool {
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= n
	case a[0] == b[0]:
		return differByAtMost(n, a[1:], b[1:])
	case n == 0:
		return false
	}
	swapped := len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0]
	return differByAtMost(n-1, a[1:], b) || differByAtMost(n-1, a, b[1:]) || differByAtMost(n-1, a[1:], b[1:]) ||
		swapped && differByAtMost(n-1, a[2:], b[2:])
}
