package algotest

import (
	"math"
	"math/big"
	"time"
)

// Log is a list of all units that one key took, in the order of time. It is the simplest
// record, too large for a real algorithm. The zero Log is empty.
type Log struct {
	Entries []Entry
}

// Entry is the units taken at an instant. Units is negative if they were given back.
type Entry struct {
	At    time.Time
	Units int64
}

// Add appends an entry. Its time must not be before the time of the last entry.
func (l *Log) Add(at time.Time, units int64) {
	l.Entries = append(l.Entries, Entry{at, units})
}

// Admitted returns the units taken in [from, from+interval). It returns math.MaxInt64 if the
// sum does not fit into an int64.
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

// Worst returns the most units taken in any half-open interval of that length.
func (l *Log) Worst(interval time.Duration) int64 {
	var worst int64
	for _, e := range l.Entries {
		worst = max(worst, l.Admitted(e.At, interval))
	}
	return worst
}
