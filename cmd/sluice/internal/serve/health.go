package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/memory"
)

const (
	probeEvery = time.Second
	probeTime  = 2 * time.Second // for the store to answer a probe
	probeStale = 5 * time.Second // when the result of a probe says nothing any more
	probeKept  = 5 * time.Second // the TTL of a probe's record
)

// writeProbe stores a new record. A replica that is read-only and a disk that is full can be read, but
// store nothing.
func (s *Server) writeProbe(ctx context.Context) error {
	if _, ok := s.store.Store.(*memory.Store); ok {
		return nil // a memory store cannot fail
	}
	key := driver.RuleKey{Rule: driver.Rule(s.options.Namespace, "", "probe"), Key: rand.Text()}.String() // the key of no rule
	_, _, err := s.store.CompareAndSwap(ctx, storage.Swap{Key: key, New: storage.Record{Version: storage.NewVersion()}, TTL: probeKept})
	return err
}

// probe finds out whether requests get decisions under the current rules.
func (s *Server) probe(ctx context.Context) error {
	if err := s.writeProbe(ctx); err != nil {
		return err
	}
	current := s.current.Load()
	if err := current.probe.decide(ctx); err != nil {
		return err
	}
	return current.probe.readShared(ctx)
}

// storeHealth is the result of a probe.
type storeHealth struct {
	err error
	at  time.Time
}

// failure returns the reason why the store is unavailable; nil if it is available.
func (h *storeHealth) failure() error {
	if age := time.Since(h.at); h.err == nil && age > probeStale {
		return fmt.Errorf("no answer for %s", readable.Rounded(age))
	}
	return h.err
}

// checkStore probes the store, or starts to use a store that has been unavailable since the start.
func (s *Server) checkStore(ctx context.Context) {
	check, wait := s.probe, probeTime
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
	case s.health.Load().err != nil:
		s.log.Info("the store is available again")
	}
	s.health.Store(&storeHealth{err, time.Now()})
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
		return fmt.Errorf("%s %s: %w", s.options.StoreFrom, s.store.address, err)
	}
	s.health.Store(&storeHealth{err, time.Now()})
	if err != nil {
		s.missing.Store(true)
		s.log.Warn("the store is unavailable; until it is available, --on-failure decides", "store", s.store.address, "error", errorText(err))
	}
	return nil
}

// prepareStore connects to the store, creates its table, writes to it and makes decisions.
func (s *Server) prepareStore(ctx context.Context, file *config.File) error {
	if err := s.store.prepare(ctx); err != nil {
		refused := new(net.OpError)
		if errors.As(err, &refused) && refused.Op == "dial" || errors.As(err, new(*net.DNSError)) {
			return fmt.Errorf("%s; start the store, or check its address", oneLine(err))
		}
		return errors.New(oneLine(err))
	}
	if err := s.writeProbe(ctx); err != nil {
		return fmt.Errorf("the store can be read but not written: %s", oneLine(err))
	}
	if err := s.tryDecisions(ctx, file); err != nil {
		return errors.New(oneLine(err))
	}
	return nil
}

// tryDecisions returns an error if the store does not decide under the rules of file.
func (s *Server) tryDecisions(ctx context.Context, file *config.File) error {
	probe, err := s.newDecisionProbe(file)
	if err != nil {
		return err
	}
	return probe.decide(ctx)
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
	if err := s.applyRules(ctx, s.current.Load().file); err != nil {
		s.missing.Store(true)
		return err
	}
	return nil
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
	failure := s.health.Load().failure()
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
