package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// missingStore replaces a store that has been unavailable since the start. It fails at once, so
// that requests do not wait for their timeout.
type missingStore struct{}

var errMissing = storage.NotApplied(errors.New("the store has been unavailable since the start"))

// Load implements storage.Store.
func (missingStore) Load(context.Context, ...string) ([]storage.Record, error) {
	return nil, errMissing
}

// CompareAndSwap implements storage.Store.
func (missingStore) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	return nil, false, errMissing
}

// startTime is how long the server waits for the store's first response. A server that can start
// without the store waits only for degradedStartTime.
const (
	startTime         = 15 * time.Second
	degradedStartTime = 3 * time.Second
)

// reachStore makes the store ready for the first decision. If that fails, the server
// starts without it, unless it could only refuse requests.
func (s *Server) reachStore(ctx context.Context) error {
	wait := startTime
	if s.options.OnFailure != compose.FailClosed {
		wait = degradedStartTime
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.prepareStore(ctx)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case err != nil && s.options.OnFailure == compose.FailClosed:
		return fmt.Errorf("%s %s: %w", s.options.storeFrom(), s.store.address, err)
	}
	s.health.Store(&storeHealth{err, time.Now()})
	if err != nil {
		s.missing.Store(true)
		s.log.Warn("the store is unavailable; until it is available, --on-failure decides", "store", s.store.address, "error", err)
	}
	return nil
}

// prepareStore connects to the store, creates its table and writes to it.
func (s *Server) prepareStore(ctx context.Context) error {
	if err := s.store.prepare(ctx); err != nil {
		if refused := new(net.OpError); errors.As(err, &refused) && refused.Op == "dial" {
			return fmt.Errorf("%s; start the store, or check its address", oneLine(err))
		}
		return errors.New(oneLine(err))
	}
	if err := s.probe.write(ctx); err != nil {
		return fmt.Errorf("the store can be read but not written: %s", oneLine(err))
	}
	return nil
}

// takeUpStore starts to use a store that was unavailable at the start. If the store has states of
// another algorithm under a rule's name, the server does not use it, as it would have refused to
// start.
func (s *Server) takeUpStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := s.prepareStore(ctx); err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.missing.Store(false)
	if err := s.adopt(ctx, s.current.Load().file); err != nil {
		s.missing.Store(true)
		return err
	}
	return nil
}
