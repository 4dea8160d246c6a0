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
	few       = 17 // inline: of up to 16 slots, and the trailing one
	tag       = 'm'
	version   = 1
	header    = 18 // tag, version, At and Width
	maxCounts = MaxSlots + 1
)

// AppendState appends the encoding of s to dst: nothing for a key never seen. A
// State that no step returns is encoded as the nearest one that could be.
func AppendState(dst []byte, s State) []byte {
	s = s.normal()
	return s.append(dst)
}

// append is AppendState for a state that a step returns. What is too old to matter
// may add up with the rest to more than the encoding holds; then it is cut off.
func (s *State) append(dst []byte) []byte {
	start := len(dst)
	counts := trim(s.counts())
	if len(counts) == 0 {
		return dst
	}
	dst = append(dst, tag, version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(dst[len(dst)-16:], uint64(s.At))
	binary.BigEndian.PutUint64(dst[len(dst)-8:], uint64(s.Width))
	dst = binary.AppendUvarint(dst, uint64(len(counts)))
	var sum, signs int64
	for _, c := range counts {
		if uint64(c) < 0x80 {
			dst = append(dst, byte(c))
		} else {
			dst = binary.AppendUvarint(dst, uint64(c))
		}
		sum += c
		signs |= sum
	}
	if signs < 0 {
		return AppendState(dst[:start], *s)
	}
	return dst
}

// ParseState decodes what AppendState wrote; no bytes are the zero State. It
// returns [algo.ErrState] or [algo.ErrStateVersion] for anything else.
func ParseState(b []byte) (s State, err error) {
	if err := s.parse(b); err != nil {
		return State{}, err
	}
	return s, nil
}

// parse decodes b into the zero State s. After an error s has no meaning.
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
	if len(b) <= header {
		return algo.ErrState
	}
	s.At = int64(binary.BigEndian.Uint64(b[2:]))
	s.Width = int64(binary.BigEndian.Uint64(b[10:]))
	n, pos := uvarint(b, header)
	rest := uint64(len(b) - pos) // a count takes a byte or more
	if uint64(s.At) > algo.MaxInstant || uint64(s.Width)-1 > algo.MaxInstant || n-1 >= min(rest, maxCounts) {
		return algo.ErrState
	}
	s.hold(int(n))
	var c, sum, signs uint64
	counts := s.counts()[:n]
	for i := range counts {
		switch { // most are of a byte or two
		case pos < len(b) && b[pos] < 0x80:
			c = uint64(b[pos])
			pos++
		case pos+1 < len(b) && b[pos+1]-1 < 0x7f:
			c = uint64(b[pos]&0x7f) | uint64(b[pos+1])<<7
			pos += 2
		default:
			c, pos = uvarint(b, pos)
		}
		counts[i] = int64(c)
		sum += c
		signs |= c | sum | (algo.MaxCount - c)
	}
	if pos != len(b) || c == 0 || signs > math.MaxInt64 {
		return algo.ErrState
	}
	return nil
}

// uvarint decodes the number at pos, and tells where it ends: beyond the end of b
// where there is none, or not in its shortest form.
func uvarint(b []byte, pos int) (x uint64, end int) {
	for shift := 0; pos < len(b) && shift < 64; shift += 7 {
		c := uint64(b[pos])
		pos++
		if c < 0x80 {
			if shift > 0 && c == 0 || shift == 63 && c > 1 {
				break
			}
			return x | c<<shift, pos
		}
		x |= c & 0x7f << shift
	}
	return 0, len(b) + 1
}

func (s *State) counts() []int64 {
	if s.Many != nil {
		return s.Many
	}
	return s.Few[:]
}

// trim is the counts up to the oldest that is not 0.
func trim(counts []int64) []int64 {
	n := len(counts)
	for n >= 4 && counts[n-1]|counts[n-2]|counts[n-3]|counts[n-4] == 0 {
		n -= 4
	}
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return counts[:n]
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
		c := min(max(counts[i], 0), room, algo.MaxCount)
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

// add adds up the counts of a window of so many slots, and the trailing one. It
// reports whether they are such as a step leaves behind.
func (s *State) add(slots int) (recent, trailing int64, ok bool) {
	counts := s.counts()
	if len(counts) > slots {
		trailing = counts[slots]
		counts = counts[:slots]
	}
	signs := trailing | (algo.MaxCount - trailing)
	for _, c := range counts {
		recent += c
		signs |= c | recent | (algo.MaxCount - c)
	}
	return recent, trailing, signs|(recent+trailing) >= 0
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
// step if that was earlier. So it stays at least as long as it would have. The
// state is such as a step returns, or zero.
func (s *State) recut(width int64, slots int) {
	old := *s
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
		counts[age] = min(counts[age]+c, algo.MaxCount)
		newest, begin = max(begin-1, 0), max(begin-old.Width, 0)
	}
}
