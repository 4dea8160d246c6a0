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
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// stacks have parts of all algorithms, and their oracles. L is each limit of the searches. 2L and 9L have a few more units in a
// period that is two or nine times as long, so that each part decides in turn.
var stacks = map[string]func(times func(n int64) algo.Limit) []algotest.Oracle{
	"all(gcra L; gcra 9L burst=2; fixedwindow 2L)": func(times func(int64) algo.Limit) []algotest.Oracle {
		return []algotest.Oracle{algotest.Bucket(times(1), times(1).Count), algotest.Bucket(times(9), 2), algotest.WindowFromFirst(times(2))}
	},
	"all(tokenbucket 2L refill=interval; movingwindow L slots=2 trailing=whole)": func(times func(int64) algo.Limit) []algotest.Oracle {
		return []algotest.Oracle{algotest.IntervalBucket(times(2), times(2).Count), algotest.MovingWindow(times(1), 2, true)}
	},
}

// multiplesOf returns the function for 2L and 9L.
func multiplesOf(l algo.Limit) func(n int64) algo.Limit {
	return func(n int64) algo.Limit {
		count := min(l.Count, algo.MaxCount/n-1)*n + n/2
		return algo.Per(count, min(l.Period, (algo.MaxPeriod/time.Duration(n)).Truncate(time.Microsecond))*time.Duration(n))
	}
}

func TestLaws(t *testing.T) {
	for stack, oracles := range stacks {
		subject := algotest.Subject{
			Name: stack,
			New: func(l algo.Limit) (algo.Policy, error) {
				times := multiplesOf(l)
				return compose.ParsePolicy(strings.NewReplacer("2L", times(2).String(), "9L", times(9).String(), "L", times(1).String()).Replace(stack))
			},
			Oracle:   func(l algo.Limit) algotest.Oracle { return least(oracles(multiplesOf(l))) },
			Recode:   recode,
			Windowed: true,
			Composed: true,
		}
		t.Run(stack, func(t *testing.T) {
			t.Parallel()
			algotest.Run(t, subject)
		})
	}
}

// least returns the oracle of a stack. It has the least units that the oracle of a part has.
func least(oracles []algotest.Oracle) algotest.Oracle {
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
