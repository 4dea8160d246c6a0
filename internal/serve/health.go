package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/storage"
)

// probeKey is of no rule.
var probeKey = storage.Key("", "healthz")

const (
	probeTime = 2 * time.Second
	probeAge  = time.Second // for how long an answer is told again
)

// probe asks the store whether it answers, one question at a time, however many
// ask for its health.
type probe struct {
	store storage.Store
	mu    sync.Mutex
	asked time.Time
	err   error
}

func (p *probe) ask() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) < probeAge {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	_, p.err = p.store.Load(ctx, probeKey)
	p.asked = time.Now()
	return p.err
}

// health answers whether the store does. Why not is for the log alone.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if s.draining.Load() {
		plainProblem(http.StatusServiceUnavailable, "shutting down").write(w)
		return
	}
	if err := s.probe.ask(); err != nil {
		s.sparse.Warn("not healthy", "error", err)
		plainProblem(http.StatusServiceUnavailable, "the store does not answer").write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
}
