package movingwindow

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/policy"
)

// State is the use of one key. A State whose counts are all 0 is a new key. A paid step is an allowed request, a charge or a
// refund.
type State struct {
	At    int64 // time of the last paid step, in microseconds since the Unix epoch
	Width int64 // width of the slots, in microseconds

	// Counts has the counts of slots. Index 0 is the slot of At, and Options.Slots the trailing slot. Higher ones are ignored.
	Counts [17]int64
	// LongCounts replaces Counts if there are more than 17. It is never modified, so States may share it.
	LongCounts []int64
}

// Version 1 of the encoding has 18 bytes, and s bytes for each slot from the current one to the oldest one in use. s is the
// least number of bytes that can hold every count. Numbers are big endian. A key without units in use is empty bytes.
//
//	'm' 1
//	7 bytes: At, at most 2^52-1
//	7 bytes: Width, from 1 to 2^52-1
//	2 bytes: s*2048 + the number of counts; s is from 1 to 7, and the number from 1 to 1025
//	s bytes each: the counts, from the slot of At to older slots
//
// The last count is not 0. The sum of the counts is at most 2^52-1.
const (
	tag       = 'm'
	header    = 18 // tag, version, At, Width, and the size of a count with the number of counts
	maxCounts = MaxSlots + 1
	sizeUnit  = 2048 // the weight of the size beside the number
)

// AppendState appends the encoding of s, or of the nearest State that an operation can return. A new key has no bytes.
func AppendState(dst []byte, s State) []byte {
	s = s.normalized()
	return s.append(dst)
}

// append is AppendState for a state that a step returns.
func (s *State) append(dst []byte) []byte {
	counts := trim(s.counts())
	if len(counts) == 0 {
		return dst
	}
	all := int64(0)
	for _, c := range counts {
		all |= c
	}
	size := (bits.Len64(uint64(all)) + 7) / 8
	length := header + len(counts)*size
	dst = slices.Grow(dst, length)
	b := dst[len(dst) : len(dst)+length]
	// Every number is written as 8 bytes. The number before it overwrites the leading zeros.
	for i, end := len(counts)-1, length; i >= 0; i, end = i-1, end-size {
		binary.BigEndian.PutUint64(b[end-8:end], uint64(counts[i]))
	}
	binary.BigEndian.PutUint16(b[16:], uint16(size*sizeUnit+len(counts)))
	binary.BigEndian.PutUint64(b[8:], uint64(s.Width))
	binary.BigEndian.PutUint64(b[1:], uint64(s.At))
	b[0], b[1] = tag, policy.Version
	return dst[:len(dst)+length]
}

// ParseState decodes bytes from AppendState. It returns [algo.ErrState] or [algo.ErrStateVersion] for other bytes.
func ParseState(b []byte) (State, error) {
	var s State
	if err := s.parse(b); err != nil {
		return State{}, err
	}
	return s, nil
}

// parse decodes b into s, which must be zero. After an error s has no meaning.
func (s *State) parse(b []byte) error {
	if len(b) <= header || b[0] != tag || b[1] != policy.Version {
		return policy.HeaderError(b, tag)
	}
	s.At = int64(binary.BigEndian.Uint64(b[1:]) & (1<<56 - 1))
	s.Width = int64(binary.BigEndian.Uint64(b[8:]) & (1<<56 - 1))
	sizes := int(binary.BigEndian.Uint16(b[16:]))
	size, n := sizes/sizeUnit, sizes%sizeUnit
	if size < 1 || size > 7 || n > maxCounts || header+n*size != len(b) ||
		s.At > algo.MaxInstant || uint64(s.Width)-1 >= algo.MaxLevel {
		return algo.ErrState
	}
	s.allocate(n)
	counts := s.counts()[:n]
	var all, sum int64
	mask := int64(1)<<(8*size) - 1
	for i, end := 0, header+size; i < n; i, end = i+1, end+size {
		c := int64(binary.BigEndian.Uint64(b[end-8:end])) & mask
		counts[i] = c
		all |= c
		if sum += c; sum > algo.MaxLevel {
			return algo.ErrState
		}
	}
	shortest := size == 1 || all >= 1<<(8*(size-1))
	if !shortest || counts[len(counts)-1] == 0 {
		return algo.ErrState
	}
	return nil
}

func (s *State) counts() []int64 {
	if s.LongCounts != nil {
		return s.LongCounts
	}
	return s.Counts[:]
}

// count returns the count of a slot.
func (s *State) count(slot int64) int64 {
	if counts := s.counts(); slot < int64(len(counts)) {
		return counts[slot]
	}
	return 0
}

// trim returns the counts up to the oldest that is not 0.
func trim(counts []int64) []int64 {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return counts[:n]
}

func (s *State) isEmpty() bool { return len(trim(s.counts())) == 0 }

// newest returns the index of the newest count that is not 0, or -1.
func (s *State) newest(slots int64) int64 {
	for i, c := range s.counts()[:min(slots+1, int64(len(s.counts())))] {
		if c > 0 {
			return int64(i)
		}
	}
	return -1
}

// fits reports whether a step with these arguments can return s. decide has no registers left to inline its loop.
//
//go:noinline
func (s *State) fits(args *arguments) bool {
	if s.Width != args.width || uint64(s.At) > algo.MaxInstant {
		return false
	}
	counts := s.counts()
	if len(counts) > maxCounts {
		return false
	}
	all, sum := int64(0), int64(0)
	for _, c := range counts {
		all |= c
		sum += c // of at most maxCounts numbers, so it does not overflow if all are at most algo.MaxLevel
	}
	return uint64(all) <= algo.MaxLevel && sum <= args.most+args.limit
}

// normalized returns the State nearest to s that a step can return. A State without a
// width is a new key.
func (s State) normalized() State {
	counts := trim(s.counts())
	if s.Width < 1 || len(counts) == 0 {
		return State{}
	}
	counts = counts[:min(len(counts), maxCounts)]
	n := State{At: min(max(s.At, 0), algo.MaxInstant), Width: min(s.Width, algo.MaxLevel)}
	n.allocate(len(counts))
	left := int64(algo.MaxLevel)
	for i, c := range counts {
		n.counts()[i] = min(max(c, 0), left)
		left -= n.counts()[i]
	}
	if n.isEmpty() {
		return State{}
	}
	return n
}

// allocate makes room for that many counts in a State without counts.
func (s *State) allocate(counts int) {
	if counts > len(s.Counts) {
		s.LongCounts = make([]int64, counts)
	}
}

// sum returns the sum of the counts in the slots of a window, and the count of the trailing slot.
func (s *State) sum(slots int64) (recent, trailing int64) {
	counts := s.counts()
	if int64(len(counts)) > slots {
		trailing = counts[slots]
		counts = counts[:slots]
	}
	for _, c := range counts {
		recent += c
	}
	return recent, trailing
}

// age makes the counts older by that many slots, and drops those that are too old for a window of slots. It copies LongCounts.
func (s *State) age(by, slots int64) {
	old := s.counts()
	if by == 0 && s.LongCounts == nil {
		if slots < int64(len(old)) {
			clear(old[slots+1:])
		}
		return
	}
	old = trim(old[:max(0, min(slots+1-by, int64(len(old))))])
	if n := int(by) + len(old); len(old) == 0 {
		s.Counts, s.LongCounts = [17]int64{}, nil
	} else if n > len(s.Counts) {
		counts := make([]int64, n)
		copy(counts[by:], old)
		s.Counts, s.LongCounts = [17]int64{}, counts
	} else {
		copy(s.Counts[by:], old)
		clear(s.Counts[:by])
		clear(s.Counts[n:])
		s.LongCounts = nil
	}
}

// giveBack subtracts units from the counts from newest to oldest, and returns how many.
func (s *State) giveBack(units, newest, oldest int64) (given int64) {
	counts := s.counts()
	for i := max(newest, 0); i <= oldest && i < int64(len(counts)); i++ {
		back := min(units-given, counts[i])
		counts[i] -= back
		given += back
	}
	return given
}

// resized converts the counts of a normalized state to the slots of a window, as "Changed limits" in the package comment describes.
func (s State) resized(args *arguments) State {
	if s.Width == 0 {
		return State{Width: args.width}
	}
	next := State{At: s.At, Width: args.width}
	next.allocate(int(args.slots) + 1)
	counts, current, left := next.counts(), s.At/args.width, args.most // so that a step fits
	newest, begin := s.At, s.At-s.At%s.Width
	for _, c := range slices.Clone(s.counts()) {
		age := current - newest/args.width
		if age > args.slots {
			break
		}
		c = min(c, left)
		counts[age] += c
		left -= c
		newest, begin = max(begin-1, 0), max(begin-s.Width, 0)
	}
	return next
}
