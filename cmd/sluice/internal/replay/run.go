package replay

import (
	"encoding/binary"
	"time"
)

// A run is units admitted at one instant and the time until the next run. Logs
// count in seconds, where most runs fit the first of two forms:
//
//	0uuwwwww                              1 to 4 units, 1 to 32 seconds
//	1ssuuuuu [uvarint units] uvarint wait in the unit of time s; uuuuu is 0 when
//	                                      the units do not fit it, and follow

// maxRun is the length of the longest run.
const maxRun = 1 + 2*binary.MaxVarintLen64

// waitUnits are the units of time, by the two bits that stand for them.
var waitUnits = [...]int64{int64(time.Second), int64(time.Millisecond), int64(time.Microsecond), 1}

func appendRun(dst []byte, units, wait int64) []byte {
	s := 0
	for wait%waitUnits[s] != 0 {
		s++
	}
	wait /= waitUnits[s]
	if s == 0 && wait <= 32 && 1 <= units && units <= 4 {
		return append(dst, byte(units-1)<<5|byte(wait-1))
	}
	if head := 0x80 | byte(s)<<5; 1 <= units && units < 32 {
		dst = append(dst, head|byte(units))
	} else {
		dst = binary.AppendUvarint(append(dst, head), uint64(units))
	}
	return binary.AppendUvarint(dst, uint64(wait))
}

// readRun reads the run that b begins with, which is n bytes long. Wait is in
// nanoseconds.
func readRun(b []byte) (units, wait int64, n int) {
	head := b[0]
	if head < 0x80 {
		return int64(head>>5) + 1, (int64(head&31) + 1) * waitUnits[0], 1
	}
	n = 1
	if units = int64(head & 31); units == 0 {
		u, m := binary.Uvarint(b[n:])
		units, n = int64(u), n+m
	}
	count, m := binary.Uvarint(b[n:])
	return units, int64(count) * waitUnits[head>>5&3], n + m
}
