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

// element returns the element of a number. It makes the slice longer if necessary.
func element[T any](s *[]T, number uint32) *T {
	if missing := int(number) + 1 - len(*s); missing > 0 {
		*s = append(*s, make([]T, missing)...)
	}
	return &(*s)[number]
}
