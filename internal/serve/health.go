package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

const (
	probeTime = 2 * time.Second
	probeAge  = time.Second // for how long an answer is told again
	probeKept = time.Minute // what a probe has written
)

// probe finds out whether decisions can be stored, by storing something: a replica
// that is read-only and a disk that is full can be read. It asks one question at a
// time, however many want to know.
type probe struct {
	store storage.Store
	key   string          // of no rule, and of no other process
	turn  chan struct{}   // holds one while somebody asks
	found storage.Version // what is there of its own, as far as it knows
	asked time.Time
	err   error
}

func newProbe(store storage.Store, namespace string) *probe {
	return &probe{store: store, key: storage.Key("", namespace, "", "healthz", rand.Text()), turn: make(chan struct{}, 1)}
}

func (p *probe) ask() error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if time.Since(p.asked) < probeAge {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	p.err = p.write(ctx)
	p.asked = time.Now()
	return p.err
}

var errProbe = errors.New("what a probe has written keeps changing")

// write stores a record in place of the last one.
func (p *probe) write(ctx context.Context) error {
	if _, ok := p.store.(*memory.Store); ok {
		return nil // cannot fail, and has no room for other keys than those of rules
	}
	for range 3 { // the first may find that the last has lapsed, or was stored without saying so
		version := storage.NewVersion()
		now, swapped, err := p.store.CompareAndSwap(ctx, storage.Swap{Key: p.key, Old: p.found, New: storage.Record{Version: version}, TTL: probeKept})
		switch {
		case err != nil:
			return err
		case swapped:
			p.found = version
			return nil
		}
		p.found = now[0].Version
	}
	return errProbe
}

// health answers whether decisions can be stored. Why not is for the log alone.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		plainProblem(http.StatusServiceUnavailable, "shutting down").write(w)
		return
	}
	if err := s.probe.ask(); err != nil {
		s.sparse.Warn("not healthy", "error", err)
		plainProblem(http.StatusServiceUnavailable, "the store takes no writes").write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
}
