package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fault is an edit that makes the program of a subject wrong.
type fault struct{ subject, from, to string }

// checkFaults checks that the law finds each fault within 20,000 calls.
func checkFaults(t *testing.T, faults []fault, run func(edit func(string) string) runner) {
	for _, f := range faults {
		i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == f.subject })
		require.NotEqual(t, -1, i, "there is no subject %q", f.subject)
		faulty := run(func(text string) string {
			require.Contains(t, text, f.from)
			return strings.ReplaceAll(text, f.from, f.to)
		})
		assert.Error(t, subjects[i].check(uint64(i), 20_000, faulty), "%s: %q instead of %q", f.subject, f.to, f.from)
	}
}
