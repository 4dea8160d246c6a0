package storagetest

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

var refusingLaws = []Law{
	{
		Name:     "duplicates are refused",
		Sentence: "A swap that names a key twice is refused with ErrDuplicateKey, and writes nothing.",
		check: func(s *subject) {
			a, b := key("a"), key("b")
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), writing(a, 0, "x", 0))
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), writing(b, 0, "x", 0), deleting(a, 0))
			s.lacks(a)
			s.lacks(b)
		},
	},
	{
		Name:     "what cannot be stored is refused",
		Sentence: "A key of more than MaxKey bytes is refused with ErrKey, a negative TTL, a state without a version or an unknown priority with ErrSwap, and nothing is written.",
		check: func(s *subject) {
			long, fine := strings.Repeat("x", storage.MaxKey+1), writing("fine", 0, "x", 0)
			s.refuses(storage.ErrKey, writing(long, 0, "x", 0))
			s.refuses(storage.ErrKey, fine, writing(long, 0, "x", 0))
			s.refuses(storage.ErrSwap, fine, writing(key("k"), 0, "x", -1))
			s.refuses(storage.ErrSwap, fine, storage.Swap{Key: key("k"), New: storage.Record{State: []byte("x")}})
			unknown := writing(key("k"), 0, "x", 0)
			unknown.Priority = storage.UsedUp + 1
			s.refuses(storage.ErrSwap, fine, unknown)
			if _, err := s.Store.Load(s.ctx, "fine", long); !errors.Is(err, storage.ErrKey) {
				s.fail("Load of a key of %d bytes: error %v", len(long), err)
			}
			s.lacks("fine")
			s.lacks(long[1:])
			s.lacks(key("k"))
		},
	},
	{
		Name:     "a cancelled call writes nothing",
		Sentence: "A context that ended before the call writes nothing, and the error says both: the context's error, and ErrNotApplied.",
		check: func(s *subject) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			k := key("k")
			_, swapped, err := s.Store.CompareAndSwap(ended, writing(k, 0, "x", 0))
			if swapped || !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrNotApplied) {
				s.fail("CompareAndSwap: swapped %v, error %v", swapped, err)
			}
			if _, err := s.Store.Load(ended, k); !errors.Is(err, context.Canceled) {
				s.fail("Load: error %v", err)
			}
			s.lacks(k)
		},
	},
}

// refuses requires that swaps fail with an error that is want and proves that
// nothing was applied.
func (s *subject) refuses(want error, swaps ...storage.Swap) {
	current, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...)
	if !errors.Is(err, want) || !errors.Is(err, storage.ErrNotApplied) || swapped || current != nil {
		s.fail("CompareAndSwap of %s: %d records, swapped %v, error %v", keysOf(swaps), len(current), swapped, err)
	}
}
