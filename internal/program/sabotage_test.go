package program_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fault is an edit that makes the program of a subject wrong.
type fault struct{ subject, from, to string }

func (f fault) in(t testing.TB, text string) string {
	require.Contains(t, text, f.from)
	return strings.ReplaceAll(text, f.from, f.to)
}

// checkFaults checks that the law finds each fault within 20,000 calls.
func checkFaults(t *testing.T, faults []fault, run func(fault) runner) {
	for _, fault := range faults {
		for i, s := range subjects {
			if s.name != fault.subject {
				continue
			}
			errs := errorsOf(func(t testing.TB) {
				s.test(t, uint64(i), 20_000, run(fault))
			})
			assert.NotEmpty(t, errs, "%s: %q instead of %q", s.name, fault.to, fault.from)
		}
	}
}

// errorRecorder records the errors of a test.
type errorRecorder struct {
	testing.TB
	errors []string
}

func (l *errorRecorder) Helper()           {}
func (l *errorRecorder) Error(args ...any) { l.errors = append(l.errors, fmt.Sprint(args...)) }

func errorsOf(test func(testing.TB)) []string {
	var l errorRecorder
	test(&l)
	return l.errors
}
