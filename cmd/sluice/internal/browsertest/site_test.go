package browsertest

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// site is the static site, on a plain file server below a path.
type site struct {
	address string
	mu      sync.Mutex
	served  []string // the requests since the last call of requests
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a site")
	out, err := exec.Command("../../../../scripts/site.sh", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := new(site)
	files := http.StripPrefix("/docs/compare", http.FileServer(http.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.served = append(s.served, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.address = server.URL + "/docs/compare/"
	return s
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := s.served
	s.served = nil
	return served
}

func TestStaticSite(t *testing.T) {
	t.Parallel()
	need(t)
	s := newSite(t)
	q := query{
		Specs:    []string{"gcra 30/m", "all(fixedwindow 30/m; movingwindow 100/10m slots=5)"},
		Stream:   stream{Kind: "bursts", Requests: 2000, Length: 3600, Clients: 4, Seed: 7},
		Reaction: "backoff", Skews: []float64{0, 5}, OwnClocks: true,
	}
	served := open(t, q.settings())
	b := blank(t)
	b.visit(s.address + "#" + q.settings())
	require.Equal(t, served.table(), b.table())
	require.Empty(t, b.messages())
	for _, request := range s.requests() {
		require.True(t, strings.HasPrefix(request, "GET /docs/compare/"), request)
	}

	t.Run("has a strict content security policy", func(t *testing.T) {
		policy := eval[string](b, "document.querySelector('meta[http-equiv=\"Content-Security-Policy\"]').content")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "unsafe-inline")
		require.NotContains(t, policy, "'unsafe-eval'")
		require.NotContains(t, policy, "*")
		require.NotContains(t, policy, "http")
	})
	t.Run("explains decisions", func(t *testing.T) {
		b.tabTo("#chart-1")
		b.press(kb.End)
		b.waitWords("call ")
		b.requireResult()
	})
	t.Run("exports a trace", func(t *testing.T) {
		sluice(t, "replay", "--check", b.download("#export-trace", "sluice.trace"))
	})
	t.Run("replays a dropped log without a request", func(t *testing.T) {
		b.visit(s.address + "#p=gcra+1/5s")
		s.requests()
		b.changes(func() { b.drop("access.log", lines(60)) })
		b.requireLog()
		b.wait("location.hash.includes('log=')")
		require.Empty(t, s.requests())
	})
	t.Run("reports a log that cannot be replayed", func(t *testing.T) {
		b.drop("empty.log", "")
		b.wait("document.querySelector('#log-note').innerText.includes('the log is empty')")
	})
	t.Run("loads again", func(t *testing.T) {
		b.do(chromedp.Reload())
		b.wait("document.querySelector('#messages').innerText.includes('no longer in memory')")
	})
}
