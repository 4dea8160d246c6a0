package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/storage"
)

const (
	probeEvery = time.Second
	probeTime  = 2 * time.Second // for the store to answer a probe
)

// checkStore probes the store, or starts to use a store that has been unavailable since the start.
func (s *Server) checkStore(ctx context.Context) {
	check, wait := s.current.Load().probe.run, probeTime
	if s.missing.Load() {
		check, wait = s.attachStore, startTime
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := check(within)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		s.sampled.Warn("the store is unavailable", "error", errorText(err))
	case *s.health.Load() != nil:
		s.log.Info("the store is available again")
	}
	s.health.Store(&err)
}

// missingStore replaces a store that has been unavailable since the start. It fails at once, so
// that requests do not wait for their timeout.
type missingStore struct{}

var errMissing = storage.NotApplied(errors.New("the store has been unavailable since the start"))

// Load implements storage.Store.
func (missingStore) Load(context.Context, ...string) ([]storage.Record, time.Time, error) {
	return nil, time.Time{}, errMissing
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

// reachStore makes the store ready for the first decision under the rules of file. If that fails, the
// server starts without it, unless it could only refuse requests.
func (s *Server) reachStore(ctx context.Context, file *config.File) error {
	wait := startTime
	if s.options.OnFailure != sluice.FailClosed {
		wait = degradedStartTime
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.prepareStore(ctx, file)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case err != nil && s.options.OnFailure == sluice.FailClosed:
		return fmt.Errorf("%s %s: %w", s.options.StoreFrom, s.store.Address, err)
	}
	s.health.Store(&err)
	if err != nil {
		s.missing.Store(true)
		s.log.Warn("the store is unavailable; until it is available, --on-failure decides", "store", s.store.Address, "error", errorText(err))
	}
	return nil
}

// prepareStore connects to the store, creates its table and makes decisions. A user that may not create a table may still
// use it.
func (s *Server) prepareStore(ctx context.Context, file *config.File) error {
	probe, err := s.newDecisionProbe(file)
	if err != nil {
		return err
	}
	prepared := s.store.Prepare(ctx)
	switch err = probe.decide(ctx); {
	case err == nil:
		return nil
	case prepared == nil:
		return errors.New(readable.OneLine(err))
	}
	return errors.New(stores.ErrorText(prepared))
}

// attachStore starts to use a store that was unavailable at the start. If the rules cannot read a state that all requests need,
// the server does not use the store, as it would have refused to start.
func (s *Server) attachStore(ctx context.Context) error {
	if err := s.prepareStore(ctx, s.current.Load().file); err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.missing.Store(false)
	err := s.applyRules(ctx, s.current.Load().file)
	s.missing.Store(err != nil)
	return err
}

// live is the liveness probe. It does not check the store, because an orchestrator must not
// restart a process when the store is down.
func live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
}

// ready is the readiness probe. It returns the result of the last probe of the store at once.
// The reason of a failure goes to the log only. With sluice.FailOpen and FailLocal, the server is
// ready without the store, but not with states that the rules cannot read.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	failure := *s.health.Load()
	var unready string
	switch {
	case s.draining.Load():
		unready = "shutting down"
	case failure != nil && isFault(failure):
		unready = "no request can be decided, whatever --on-failure says; see the server's log"
	case failure != nil && s.options.OnFailure == sluice.FailClosed:
		unready = "the store cannot be used; see the server's log"
	}
	if unready != "" {
		plainProblem(http.StatusServiceUnavailable, "%s", unready).write(w)
		return
	}
	store := "ok"
	if failure != nil {
		store = "failed"
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok", "store": store})
}

const (
	purgeEvery = time.Minute
	purgeBatch = 1000
	purgeTime  = time.Minute // for one batch: the store may have to look at many more records
)

// purge removes the store's expired records in batches, so that the store can write decisions in
// between.
func (s *Server) purge(ctx context.Context, purger storage.Purger) {
	if s.missing.Load() {
		return
	}
	var err error
	removed := 0
	for n := purgeBatch; n == purgeBatch && err == nil; removed += n {
		batch, cancel := context.WithTimeout(ctx, purgeTime)
		n, err = purger.Purge(batch, purgeBatch)
		cancel()
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.metrics.purges.WithLabelValues(failed).Inc()
		s.sampled.Warn("removing expired records from the store failed", "error", errorText(err))
	default:
		s.metrics.purges.WithLabelValues(succeeded).Inc()
		s.sampled.Debug("removed expired records", "removed", removed)
	}
}
