package errtext_test

// These tests promise that Nearest finds a known word despite one or two typos, and nothing else, and
// that Quote shows no control characters and never more than MaxQuoted characters.

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/errtext"
)

func TestNearestFindsWordsWithOneOrTwoTypos(t *testing.T) {
	known := []string{"gcra", "tokenbucket", "all", "burst", "ip"}
	for typed, want := range map[string]string{
		"gcra": "gcra", "GCRA": "gcra", "gcar": "gcra", "gra": "gcra", "ggcra": "gcra", "grac": "gcra",
		"tokenbukcet": "tokenbucket", "tokenbuckets": "tokenbucket", "brust": "burst", "bsurt": "burst",
		"": "", "x": "", "i": "", "slots": "", "tokens": "", strings.Repeat("gcra", 1000): "",
		"al": "all", "aal": "all", "a": "",
	} {
		require.Equal(t, want, errtext.Nearest(typed, known), typed)
	}
}

func TestQuoteEscapesAndCuts(t *testing.T) {
	require.Equal(t, `"a\x1bb"`, errtext.Quote("a\x1bb"))
	require.Equal(t, `"`+strings.Repeat("x", errtext.MaxQuoted)+`"...`, errtext.Quote(strings.Repeat("x", 5000)))
	require.Equal(t, `"`+strings.Repeat("é", errtext.MaxQuoted)+`"...`, errtext.Quote(strings.Repeat("é", 101)))
	require.Equal(t, `"`+strings.Repeat("é", 60)+`"`, errtext.Quote(strings.Repeat("é", 60)), "whole")
}
