package storagetest

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

var errorLaws = []Law{
	{
		Name:     "duplicate keys are refused",
		Sentence: "A CompareAndSwap that has a key twice returns ErrDuplicateKey and writes nothing.",
		check: func(s *subject) {
			a, b := key("a"), key("b")
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), writing(a, 0, "x", 0))
			s.refuses(storage.ErrDuplicateKey, writing(a, 0, "x", 0), writing(b, 0, "x", 0), deleting(a, 0))
			s.lacks(a)
			s.lacks(b)
		},
	},
	{
		Name:     "invalid swaps are refused",
		Sentence: "A key of more than MaxKey bytes is refused with ErrKey. A negative TTL, a state without a version and an unknown priority are refused with ErrSwap. Nothing is written.",
		check: func(s *subject) {
			long, valid := strings.Repeat("x", storage.MaxKey+1), writing("valid", 0, "x", 0)
			s.refuses(storage.ErrKey, writing(long, 0, "x", 0))
			s.refuses(storage.ErrKey, valid, writing(long, 0, "x", 0))
			s.refuses(storage.ErrSwap, valid, writing(key("k"), 0, "x", -1))
			s.refuses(storage.ErrSwap, valid, storage.Swap{Key: key("k"), New: storage.Record{State: []byte("x")}})
			unknown := writing(key("k"), 0, "x", 0)
			unknown.Priority = storage.UsedUp + 1
			s.refuses(storage.ErrSwap, valid, unknown)
			if _, err := s.Store.Load(s.ctx, "valid", long); !errors.Is(err, storage.ErrKey) {
				s.fail("Load of a key of %d bytes returned the error %v", len(long), err)
			}
			s.lacks("valid")
			s.lacks(long[1:])
			s.lacks(key("k"))
		},
	},
	{
		Name:     "a cancelled call writes nothing",
		Sentence: "If its context ended before the call, CompareAndSwap writes nothing. The error wraps the context's error and ErrNotApplied.",
		check: func(s *subject) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			k := key("k")
			_, swapped, err := s.Store.CompareAndSwap(ended, writing(k, 0, "x", 0))
			if swapped || !errors.Is(err, context.Canceled) || !errors.Is(err, storage.ErrNotApplied) {
				s.fail("CompareAndSwap returned swapped %v and the error %v", swapped, err)
			}
			if _, err := s.Store.Load(ended, k); !errors.Is(err, context.Canceled) {
				s.fail("Load returned the error %v", err)
			}
			s.lacks(k)
		},
	},
}

// refuses requires that CompareAndSwap returns an error that wraps want and ErrNotApplied.
func (s *subject) refuses(want error, swaps ...storage.Swap) {
	current, swapped, err := s.Store.CompareAndSwap(s.ctx, swaps...)
	if !errors.Is(err, want) || !errors.Is(err, storage.ErrNotApplied) || swapped || current != nil {
		s.fail("CompareAndSwap of %s returned %d records, swapped %v and the error %v", keysOf(swaps), len(current), swapped, err)
	}
}
