package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// quote keeps hostile words out of messages: escaped, and cut when long.
func quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		return fmt.Sprintf("%.*q...", most, s)
	}
	return fmt.Sprintf("%q", s)
}

// didYouMean is a question if one of the words known is near to what was typed.
func didYouMean(typed string, known []string) string {
	nearest, least := "", 3
	for _, k := range known {
		if d := distance(strings.ToLower(typed), k); d < least && d < len(k)-1 {
			nearest, least = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return ", did you mean " + nearest + "?"
}

// distance is how many letters must be inserted, deleted or changed to make b of
// a. Words much longer than b are just far.
func distance(a, b string) int {
	if len(a) > len(b)+3 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
