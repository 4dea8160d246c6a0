package algotest

import (
	"math"
	"math/big"
	"time"
)

// Log is every event of one key that took units, in the order of time: the
// naive account that no algorithm can afford to keep. The zero Log is empty.
type Log struct {
	Entries []Entry
}

// Entry is units taken at an instant; negative where they were given back.
type Entry struct {
	At    time.Time
	Units int64
}

// Add appends an entry. Its time must not be before that of the last one.
func (l *Log) Add(at time.Time, units int64) {
	l.Entries = append(l.Entries, Entry{at, units})
}

// Admitted is the units taken in [from, from+interval). A sum beyond int64 is
// answered with math.MaxInt64.
func (l *Log) Admitted(from time.Time, interval time.Duration) int64 {
	sum := new(big.Int)
	for _, e := range l.Entries {
		if since := e.At.Sub(from); since >= 0 && since < interval {
			sum.Add(sum, big.NewInt(e.Units))
		}
	}
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}

// Worst is the most units taken in any half-open interval of that length. It is
// enough to look at those that begin with an entry.
func (l *Log) Worst(interval time.Duration) int64 {
	var worst int64
	for _, e := range l.Entries {
		worst = max(worst, l.Admitted(e.At, interval))
	}
	return worst
}
