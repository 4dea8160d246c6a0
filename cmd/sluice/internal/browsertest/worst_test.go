package browsertest

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var worstSentence = regexp.MustCompile(`^The search found (\d+) units in 1m; the bound is (\d+)\.$`)

func TestBreakItButton(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+30/m&p=tokenbucket+30/m&p=fixedwindow+30/m&p=movingwindow+30/m+slots=12&kind=greedy")
	before := b.table()
	for i := range 4 {
		b.changes(func() { b.button(i+1, "Break it") })
		sentence := b.text(note(i + 1))
		found := worstSentence.FindStringSubmatch(sentence)
		require.NotNil(t, found, sentence)
		most, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		row := b.table()[i]
		require.Equal(t, most, row.number(t, "Most in a period"))
		require.Equal(t, found[2], row["Bound"])
		require.LessOrEqual(t, most, row.number(t, "Bound"))
		require.Greater(t, most, 29, "no worse than a limit of 30 on its own")
		require.Empty(t, b.text(note((i+1)%4+1)), "the note of another policy")
	}
	require.NotEqual(t, before, b.table())
	b.changes(func() { b.button(4, "Back") })
	require.Equal(t, before, b.table())
	require.Equal(t, "greedy", eval[string](b, "document.querySelector('#kind').value"))
	require.Empty(t, b.text(note(4)))
}

// note returns the selector of the sentence about the search in the card of a policy.
func note(policy int) string {
	return fmt.Sprintf(`article[aria-label="Policy %d"] .worst-note`, policy)
}
