package fieldlist_test

// The tests of the packages config and accesslog promise that their lists are read and written alike.
// This test promises the same for any field.

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/fieldlist"
)

type field string

func (f field) String() string { return string(f) }

var errTwice = errors.New("twice")

func parse(word string, before []field) (field, error) {
	switch {
	case !strings.Contains("abc", word) || word == "":
		return "", fieldlist.Unknown(word, []string{"alpha"}, "a"+fieldlist.Several)
	case slices.Contains(before, field(word)):
		return "", errTwice
	}
	return field(word), nil
}

func TestParseAndFormat(t *testing.T) {
	for text, want := range map[string][]field{"everything": {}, " everything ": {}, "a": {"a"}, " a + b+c": {"a", "b", "c"}} {
		got, err := fieldlist.Parse(text, parse)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := fieldlist.Parse(fieldlist.Format(got), parse)
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for text, want := range map[string]string{
		"":     `no field ""; want a, or several joined by +, such as ip+path, or everything`,
		"a+":   `"a+": a field is missing before or after a +; write for instance ip+path`,
		"alfa": `no field "alfa", did you mean alpha?; want a`,
		"a+a":  "twice",
	} {
		_, err := fieldlist.Parse(text, parse)
		require.ErrorContains(t, err, want)
	}
}
