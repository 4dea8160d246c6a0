package backtest

// keyNumbers numbers keys in the order of their first use. A comparison has one for the keys of all
// rules and for the clients, because these are often the same texts.
type keyNumbers map[string]uint32

func (k keyNumbers) of(key []byte) uint32 {
	n, known := k[string(key)]
	if !known {
		n = uint32(len(k))
		k[string(key)] = n
	}
	return n
}

// numberSet is a set of numbers, with one bit for each.
type numberSet []uint64

// add adds a number, and reports whether it is new.
func (s *numberSet) add(n uint32) (isNew bool) {
	word, bit := int(n/64), uint64(1)<<(n%64)
	*s = grown(*s, word+1)
	isNew = (*s)[word]&bit == 0
	(*s)[word] |= bit
	return isNew
}

// grown returns the slice with at least n elements.
func grown[T any](s []T, n int) []T {
	if n > len(s) {
		s = append(s, make([]T, n-len(s))...)
	}
	return s
}
