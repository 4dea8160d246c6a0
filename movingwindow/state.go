package movingwindow

import (
	"encoding/binary"
	"math"

	"github.com/sluice-go/sluice/algo"
)

// State is what one key has used. The zero State is a key never seen.
type State struct {
	At    int64 // the last paid step, ns since the Unix epoch
	Width int64 // of the slots that the counts were taken in, ns

	// Few are the counts by slot: that of At first, then older and older ones. What
	// is at an index above the options' Slots, and so is too old to matter, is not read.
	Few [few]int64
	// Many are the counts instead of Few where there are more than it holds. It is
	// never modified once it is part of a State, so States may share it.
	Many []int64
}

const (
	few       = 17
	tag       = 'm'
	version   = 1
	header    = 10 // tag, version and At
	maxCounts = MaxSlots + 1
)

// AppendState appends the encoding of s to dst: nothing for a key never seen. A
// State that no step returns is encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	s = s.normal()
	return s.append(dst)
}

func (s *State) append(dst []byte) []byte {
	counts := trim(s.counts())
	if len(counts) == 0 {
		return dst
	}
	dst = append(dst, tag, version, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(dst[len(dst)-8:], uint64(s.At))
	dst = binary.AppendUvarint(dst, uint64(s.Width))
	dst = binary.AppendUvarint(dst, uint64(len(counts)))
	for _, c := range counts {
		dst = binary.AppendUvarint(dst, uint64(c))
	}
	return dst
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (s State, err error) {
	err = s.parse(b)
	return s, err
}

// parse decodes b into the zero State s.
func (s *State) parse(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if b[0] != tag || len(b) < 2 || b[1] < version {
		return algo.ErrState
	}
	if b[1] > version {
		return algo.ErrStateVersion
	}
	if len(b) < header || !s.parseCounts(b[header:]) {
		*s = State{}
		return algo.ErrState
	}
	s.At = int64(binary.BigEndian.Uint64(b[2:]))
	if uint64(s.At) > algo.MaxInstant {
		*s = State{}
		return algo.ErrState
	}
	return nil
}

// parseCounts decodes the width and the counts, and reports whether they are valid.
func (s *State) parseCounts(b []byte) bool {
	width, b, ok := uvarint(b)
	if !ok || width-1 > algo.MaxInstant {
		return false
	}
	s.Width = int64(width)
	n, b, ok := uvarint(b)
	if !ok || n-1 >= min(maxCounts, uint64(len(b))) { // a count takes a byte or more
		return false
	}
	s.hold(int(n))
	counts := s.counts()
	var total, last uint64
	for i := range n {
		if last, b, ok = uvarint(b); !ok || last > math.MaxInt64-total {
			return false
		}
		counts[i] = int64(last)
		total += last
	}
	return len(b) == 0 && last > 0
}

// uvarint takes a number off b. It reports whether there was one, in its shortest form.
func uvarint(b []byte) (uint64, []byte, bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	x, n := binary.Uvarint(b)
	if n <= 0 || b[n-1] == 0 {
		return 0, b, false
	}
	return x, b[n:], true
}

func (s *State) counts() []int64 {
	if s.Many != nil {
		return s.Many
	}
	return s.Few[:]
}

// trim is the counts up to the oldest that is not 0.
func trim(counts []int64) []int64 {
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	return counts
}

// normal is s itself where s is one that a step returns, else the nearest that
// is. A State without a width has no meaning and counts as never seen.
func (s State) normal() State {
	if s.Width < 1 {
		return State{}
	}
	n := State{At: min(max(s.At, 0), algo.MaxInstant), Width: min(s.Width, algo.MaxInstant+1)}
	counts := trim(s.counts())
	if len(counts) == 0 {
		return State{}
	}
	n.hold(min(len(counts), maxCounts))
	room := int64(math.MaxInt64)
	for i := range n.counts()[:min(len(counts), maxCounts)] {
		c := min(max(counts[i], 0), room)
		n.counts()[i] = c
		room -= c
	}
	return n
}

// hold makes room in a State without counts for that many.
func (s *State) hold(counts int) {
	if counts > few {
		s.Many = make([]int64, counts)
	}
}

// shift makes the counts older by age slots, of at most the given number, and
// forgets those too old to matter. Something must be left. What is not inline is copied.
func (s *State) shift(age, slots int) {
	old := s.counts()
	old = trim(old[:min(len(old), slots+1-age)])
	n := age + len(old)
	if n > few {
		many := make([]int64, n)
		copy(many[age:], old)
		s.Few, s.Many = [few]int64{}, many
		return
	}
	copy(s.Few[age:], old)
	clear(s.Few[:age])
	clear(s.Few[n:])
	s.Many = nil
}

// recut counts in slots of another width, as many as matter: each count goes to
// the new slot that holds the newest instant of its old one, or the last paid
// step if that was earlier. So it stays at least as long as it would have.
func (s *State) recut(width int64, slots int) {
	old := s.normal()
	*s = State{At: old.At, Width: width}
	if old.Width == 0 {
		return
	}
	s.hold(slots + 1)
	counts, current := s.counts(), old.At/width
	newest, begin := old.At, old.At-old.At%old.Width
	for _, c := range old.counts() {
		age := current - newest/width
		if age > int64(slots) {
			break
		}
		counts[age] += c
		newest, begin = max(begin-1, 0), max(begin-old.Width, 0)
	}
}
