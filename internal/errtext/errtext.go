// Package errtext has what error messages about mistyped words need: Quote shows a word
// that a user wrote, and Nearest finds the word that the user may have meant.
package errtext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxQuoted is the most characters of a word that a message should show.
const MaxQuoted = 100

// Quote returns s in quotes, with control characters escaped. It cuts a word that is longer
// than MaxQuoted.
func Quote(s string) string {
	shown := fmt.Sprintf("%.*q", MaxQuoted, s)
	if utf8.RuneCountInString(s) > MaxQuoted {
		shown += "..."
	}
	return shown
}

// Nearest returns the known word that differs from the typed word by at most two letters,
// and by fewer than all but one of its own. It returns "" if there is none. Known words are in
// lower case; the case of the typed word does not count.
func Nearest(typed string, known []string) (nearest string) {
	least := 3
	for _, k := range known {
		if d := distance(strings.ToLower(typed), k); d < least && d < len(k)-1 {
			nearest, least = k, d
		}
	}
	return nearest
}

// distance is the number of letters that must be inserted, deleted, changed or swapped with
// their neighbour to make b of a. It is the optimal string alignment distance, but for an a
// that is much longer than b: then any large number.
func distance(a, b string) int {
	if len(a) > len(b)+3 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j-1]+change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
