package observe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
)

// still is a clock that stands still.
func still() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func byItself(key string) string { return key }

func newRegistered(t testing.TB) (*Metrics, *prometheus.Registry) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	require.NoError(t, err)
	return m, registry
}

// scrape returns the text that Prometheus reads.
func scrape(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	promhttp.HandlerFor(registry, options).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// down is a store that always returns an error.
type down struct{ err error }

func (d down) Load(context.Context, ...string) ([]storage.Record, time.Time, error) {
	return nil, time.Time{}, d.err
}

func (d down) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	return nil, false, storage.NotApplied(d.err)
}

var errFire = errors.New("the database is on fire")

func denialOf(results ...sluice.RuleResult) sluice.Event {
	d := sluice.Decision{Rule: results[0].Rule, Results: results, Attempts: 1}
	return sluice.Event{Op: sluice.OpAllow, Outcome: sluice.Denied, Decision: d, Duration: time.Millisecond}
}

func denied(rule, key string) sluice.RuleResult { return sluice.RuleResult{Rule: rule, Key: key} }

func allowed(rule, key string) sluice.RuleResult {
	return sluice.RuleResult{Rule: rule, Key: key, Result: algo.Result{Allowed: true}}
}

func shadow(r sluice.RuleResult) sluice.RuleResult {
	r.Shadow = true
	return r
}
