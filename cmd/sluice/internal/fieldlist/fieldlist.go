// Package fieldlist reads and writes the list of the fields of a key, such as ip+path.
package fieldlist

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/internal/errtext"
)

const (
	Everything = "everything" // the list without fields

	// Several completes the names of the fields in an error message.
	Several = ", or several joined by +, such as ip+path, or everything"
)

// Parse parses a list. For "everything" it returns an empty list, not nil. field parses one field,
// and gets the fields before it.
func Parse[F any](text string, field func(word string, before []F) (F, error)) ([]F, error) {
	fields := []F{}
	if strings.TrimSpace(text) == Everything {
		return fields, nil
	}
	words := strings.Split(text, "+")
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == "" && len(words) > 1 {
			return nil, fmt.Errorf("%s: a field is missing before or after a +; write for instance ip+path", errtext.Quote(text))
		}
		f, err := field(word, fields)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// Format returns the text that Parse parses.
func Format[F any](fields []F) string {
	if len(fields) == 0 {
		return Everything
	}
	return readable.List(fields, "+")
}

// Unknown returns the error for a word that is none of the known fields.
func Unknown(word string, known []string, want string) error {
	return fmt.Errorf("no field %s%s; want %s", errtext.Quote(word), DidYouMean(word, known), want)
}

// DidYouMean returns a hint if one of the known words is similar to the typed word.
func DidYouMean(typed string, known []string) string {
	nearest := errtext.Nearest(typed, known)
	if nearest == "" {
		return ""
	}
	return ", did you mean " + nearest + "?"
}
