package config

import "github.com/sluice-go/sluice/internal/errtext"

// didYouMean returns a hint if one of the known words is similar to what was typed.
func didYouMean(typed string, known []string) string {
	nearest := errtext.Nearest(typed, known)
	if nearest == "" {
		return ""
	}
	return ", did you mean " + nearest + "?"
}
