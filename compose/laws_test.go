package compose_test

// This test promises that a Stack obeys the laws of package algotest.

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// stacks have parts of all algorithms. L is each limit of the searches. 2L and 9L have a few
// more units in a period that is two or nine times as long, so that each part decides in turn.
var stacks = []string{
	"all(gcra L; gcra 9L burst=2; fixedwindow 2L)",
	"all(tokenbucket 2L refill=interval; movingwindow L slots=2 trailing=whole)",
}

// over returns the stack for one L.
func over(stack string, l algo.Limit) (algo.Policy, error) {
	times := func(n int64) string {
		count := min(l.Count, algo.MaxCount/n-1)*n + n/2
		period := min(l.Period, (algo.MaxPeriod/time.Duration(n)).Truncate(time.Microsecond)) * time.Duration(n)
		return algo.Per(count, period).String()
	}
	return compose.ParsePolicy(strings.NewReplacer("2L", times(2), "9L", times(9), "L", times(1)).Replace(stack))
}

func TestLaws(t *testing.T) {
	for _, stack := range stacks {
		subject := algotest.Subject{
			Name:     stack,
			New:      func(l algo.Limit) (algo.Policy, error) { return over(stack, l) },
			Oracle:   func(l algo.Limit) algotest.Oracle { return least(stack, l) },
			Recode:   recode,
			Windowed: strings.Contains(stack, "window"),
			Composed: true,
		}
		t.Run(stack, func(t *testing.T) {
			t.Parallel()
			algotest.Run(t, subject)
		})
	}
}

// least returns the oracle of a stack. It has the least units that the oracle of a part has.
func least(stack string, l algo.Limit) algotest.Oracle {
	p, err := over(stack, l)
	if err != nil {
		return nil
	}
	var oracles []algotest.Oracle
	for _, part := range p.(*compose.Stack).Parts() {
		oracles = append(oracles, policytest.OracleOf(part))
	}
	return func(log algotest.Log, now time.Time) int64 {
		left := int64(math.MaxInt64)
		for _, o := range oracles {
			left = min(left, o(log, now))
		}
		return left
	}
}

// recode decodes the lengths in the state of a stack as its documentation describes, and encodes them again.
func recode(state []byte) ([]byte, error) {
	if len(state) == 0 {
		return nil, nil
	}
	next := bytes.Clone(state[:2])
	for rest := state[2:]; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		next = append(binary.AppendUvarint(next, length), rest[n:][:length]...)
		rest = rest[n+int(length):]
	}
	return next, nil
}

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }
