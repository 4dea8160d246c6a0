package movingwindow

import (
	"encoding/binary"
	"math"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/algorithm"
)

// State is the use of one key. The zero State is a new key. A paid step is an allowed request, a
// charge or a refund.
type State struct {
	At    int64 // time of the last paid step, in ns since the Unix epoch
	Width int64 // width of the slots, in ns

	// Counts has the counts of up to 16 slots and of the trailing slot. Index 0 is the slot of
	// At, and higher indexes are older slots. Counts at an index above Options.Slots are too
	// old and are ignored.
	Counts [17]int64
	// LongCounts replaces Counts if there are more counts than Counts can hold. The LongCounts of
	// a State is never modified, so States may share it.
	LongCounts []int64
}

const (
	tag       = 'm'
	header    = 18 // tag, version, At and Width
	maxCounts = MaxSlots + 1
)

// AppendState appends the encoding of s to dst. A new key appends nothing. If no operation
// can return s, AppendState encodes the nearest State that one can return.
func AppendState(dst []byte, s State) []byte {
	s = s.normalized()
	return s.append(dst)
}

// append is AppendState for a state that a step returns. Counts that are too old can make
// the sum too large for the encoding. AppendState then cuts them off.
func (s *State) append(dst []byte) []byte {
	start := len(dst)
	counts := trim(s.counts())
	if len(counts) == 0 {
		return dst
	}
	dst = append(dst, tag, algorithm.Version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(dst[len(dst)-16:], uint64(s.At))
	binary.BigEndian.PutUint64(dst[len(dst)-8:], uint64(s.Width))
	dst = binary.AppendUvarint(dst, uint64(len(counts)))
	var sum, signs int64
	for _, c := range counts {
		dst = binary.AppendUvarint(dst, uint64(c))
		sum += c
		signs |= sum
	}
	if signs < 0 {
		return AppendState(dst[:start], *s)
	}
	return dst
}

// ParseState decodes bytes from AppendState. Empty bytes are the zero State. For any other
// bytes it returns [algo.ErrState] or [algo.ErrStateVersion].
func ParseState(b []byte) (s State, err error) {
	if err := s.parse(b); err != nil {
		return State{}, err
	}
	return s, nil
}

// parse decodes b into s, which must be zero. After an error s has no meaning.
func (s *State) parse(b []byte) error {
	if len(b) <= header || b[0] != tag || b[1] != algorithm.Version {
		return algorithm.HeaderError(b, tag)
	}
	s.At = int64(binary.BigEndian.Uint64(b[2:]))
	s.Width = int64(binary.BigEndian.Uint64(b[10:]))
	n, pos := uvarint(b, header)
	rest := uint64(len(b) - pos) // a count takes at least one byte
	if uint64(s.At) > algo.MaxInstant || uint64(s.Width)-1 > algo.MaxInstant || n-1 >= min(rest, maxCounts) {
		return algo.ErrState
	}
	s.allocate(int(n))
	var c, sum, signs uint64
	counts := s.counts()[:n]
	for i := range counts {
		switch { // most counts take one or two bytes
		case pos < len(b) && b[pos] < 0x80:
			c = uint64(b[pos])
			pos++
		case pos+1 < len(b) && b[pos+1]-1 < 0x7f:
			c = uint64(b[pos]&0x7f) | uint64(b[pos+1])<<7
			pos += 2
		default:
			if c, pos = uvarint(b, pos); pos > len(b) {
				return algo.ErrState
			}
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

// uvarint decodes the number at pos and returns the position after it. If there is no number, or if
// it is not in its shortest form, the number is 0 and the position is beyond the end of b.
func uvarint(b []byte, pos int) (x uint64, end int) {
	x, n := binary.Uvarint(b[pos:])
	if end = pos + n; n <= 0 || n > 1 && b[end-1] == 0 {
		return 0, len(b) + 1
	}
	return x, end
}

func (s *State) counts() []int64 {
	if s.LongCounts != nil {
		return s.LongCounts
	}
	return s.Counts[:]
}

// trim returns the counts up to the oldest that is not 0.
func trim(counts []int64) []int64 {
	n := len(counts)
	for n >= 4 && counts[n-1]|counts[n-2]|counts[n-3]|counts[n-4] == 0 { // four at once, for speed
		n -= 4
	}
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return counts[:n]
}

// normalized returns the State nearest to s that a step can return. A State without a
// width is a new key.
func (s State) normalized() State {
	if s.Width < 1 {
		return State{}
	}
	counts := trim(s.counts())
	if len(counts) == 0 {
		return State{}
	}
	counts = counts[:min(len(counts), maxCounts)]
	n := State{At: min(max(s.At, 0), algo.MaxInstant), Width: min(s.Width, algo.MaxInstant+1)}
	n.allocate(len(counts))
	left := int64(math.MaxInt64)
	for i, c := range counts {
		n.counts()[i] = min(max(c, 0), left, algo.MaxCount)
		left -= n.counts()[i]
	}
	return n
}

// allocate makes room for that many counts in a State without counts.
func (s *State) allocate(counts int) {
	if counts > len(s.Counts) {
		s.LongCounts = make([]int64, counts)
	}
}

// sum returns the sum of the counts in a window of that many slots, and the count of the
// trailing slot. ok is false if no step returns such counts.
func (s *State) sum(slots int) (recent, trailing int64, ok bool) {
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

// shift makes the counts older by age slots, where slots is the number of slots in the
// window. It drops counts that are too old; at least one must be left. It copies LongCounts.
func (s *State) shift(age, slots int) {
	old := s.counts()
	old = trim(old[:min(len(old), slots+1-age)])
	n := age + len(old)
	if n > len(s.Counts) {
		many := make([]int64, n)
		copy(many[age:], old)
		s.Counts, s.LongCounts = [17]int64{}, many
		return
	}
	copy(s.Counts[age:], old)
	clear(s.Counts[:age])
	clear(s.Counts[n:])
	s.LongCounts = nil
}

// resize converts the counts to slots of another width. The count of an old slot moves to the new
// slot that contains its last nanosecond. Only the count of the slot of the last paid step moves to
// the new slot that contains that step. So no unit counts as older than it is. s must be zero or a
// state that a step returns.
func (s *State) resize(width int64, slots int) {
	old := *s
	*s = State{At: old.At, Width: width}
	if old.Width == 0 {
		return
	}
	s.allocate(slots + 1)
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
