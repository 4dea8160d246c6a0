package servetest

import (
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// TestQuotaSurvivesAKill: the program is killed under load. If it lost its states, another burst
// would be admitted.
func TestQuotaSurvivesAKill(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "limits.db") },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).DSN() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const spec, burst, lives = "gcra 300/m burst=200", 200, 3
			u, address := newUpstream(t), freeAddress(t)
			args := []string{"--limit", spec, "--upstream", u.url, "--listen", address, "--store", store(t)}
			began := time.Now()
			p := serve(t, args...)
			l := steadyLoad(t, p.proxy+"/")
			u.await(t, burst)
			for range lives - 1 {
				before := u.admitted()
				p.kill()
				p = serve(t, args...)
				for range burst { // in addition to the requests of hey
					require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, get(t, p.proxy))
				}
				u.await(t, before+3) // it still admits
			}
			r := l.stop()
			took := time.Since(began)
			t.Logf("%v: admitted %d, %v", took.Round(time.Millisecond), u.admitted(), r)

			r.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
			for failure := range r.failures {
				require.Regexp(t, connectionErrors, failure)
			}
			require.LessOrEqual(t, u.admitted(), policyOf(t, spec).Bound(took))
		})
	}
}

func get(t *testing.T, url string) (status int) {
	t.Helper()
	r, err := (&http.Client{Timeout: testTimeout}).Get(url)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return r.StatusCode
}

// connectionErrors matches the errors of requests while the program is down or is killed.
var connectionErrors = regexp.MustCompile(`connection refused|connection reset by peer|broken pipe|EOF$`)
