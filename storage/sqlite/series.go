package sqlite

import (
	"context"
	"sync/atomic"

	"github.com/sluice-go/sluice/storage"
)

var _ storage.Series = (*Store)(nil)

// series keeps a connection from one call to the next. Otherwise a quarter of the time
// that a swap takes goes by with making it ready, and making it as it was.
type series struct {
	store *Store
	kept  atomic.Pointer[connection]
	calls atomic.Int32
	ended atomic.Bool
}

// callsPerConnection is how many calls of a series share a connection before it goes back
// to the pool, where package sql may replace it.
const callsPerConnection = 1000

// Series implements [storage.Series]. Between the calls it keeps a connection of the
// pool, but not the last.
func (s *Store) Series(ctx context.Context) (context.Context, func()) {
	begun := &series{store: s}
	return context.WithValue(ctx, s, begun), begun.end
}

// series is that which a call belongs to; nil: none.
func (s *Store) series(ctx context.Context) *series {
	begun, _ := ctx.Value(s).(*series)
	return begun
}

// take is the connection that was kept, if there is one.
func (s *series) take() *connection {
	if s == nil {
		return nil
	}
	return s.kept.Swap(nil)
}

// keep keeps a connection, unless others may be waiting for it.
func (s *series) keep(c *connection) bool {
	if s == nil || s.calls.Add(1)%callsPerConnection == 0 {
		return false
	}
	pool := s.store.db.Stats()
	full := pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections
	if full || !s.kept.CompareAndSwap(nil, c) {
		return false
	}
	return !s.ended.Load() || !s.kept.CompareAndSwap(c, nil)
}

func (s *series) end() {
	s.ended.Store(true)
	if c := s.take(); c != nil {
		defer c.pooled.Close()
		_ = c.raw(func() error {
			c.restore()
			return nil
		})
	}
}
