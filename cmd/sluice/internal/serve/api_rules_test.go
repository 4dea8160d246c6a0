package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// apiExampleRules is the limits that the examples of openapi.yaml go by.
const apiExampleRules = `
rules:
  - name: api
    policy: gcra 100/m burst=20
    by: user
  - name: daily
    policy: fixedwindow 1000/d
    by: user
  - name: uploads
    policy: tokenbucket 1000000/m
    by: user
    cost: bytes
  - name: trial
    policy: gcra 1/m
    shadow: true
`

func apiRules(t testing.TB, text string) []config.Rule {
	t.Helper()
	file, err := config.Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	return file.Rules
}

// storeAtFixedTime is a store in memory whose time stands still.
func storeAtFixedTime() *memory.Store {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return &memory.Store{Clock: func() time.Time { return noon }}
}

// apiOn serves the limits of apiWorld on store.
func apiOn(t testing.TB, store storage.Store, o compose.Options[DecisionRequest]) http.Handler {
	t.Helper()
	return apiWith(t, apiExampleRules, store, o)
}

// apiWith serves the limits of a file on store.
func apiWith(t testing.TB, file string, store storage.Store, o compose.Options[DecisionRequest]) http.Handler {
	t.Helper()
	s := &Server{service: o, store: &opened{Store: store}}
	limits, err := s.newLimits(&config.File{Rules: apiRules(t, file)})
	require.NoError(t, err)
	return &api{func() *Limits { return limits }, sampledTo(io.Discard)}
}

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	return send(h, ask(path, body))
}

// ask is a request as curl -d sends it.
func ask(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// failingStore is a store that fails.
type failingStore struct{ load, swap error }

func (b failingStore) Load(_ context.Context, keys ...string) ([]storage.Record, error) {
	return make([]storage.Record, len(keys)), b.load
}

func (b failingStore) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	return nil, false, b.swap
}

var errSecret = errors.New("dial postgres://admin:secret@10.0.0.7: refused")
