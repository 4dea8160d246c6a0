package servetest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReloadUnderLoad raises and lowers a limit under load. No request fails, and quota that was used stays
// used.
func TestReloadUnderLoad(t *testing.T) {
	for _, store := range [...]string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "limits.db")} {
		u := newUpstream(t)
		limits := filepath.Join(t.TempDir(), "limits.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(limits, []byte(text), 0o600)) }
		allow := func(count int) {
			write(fmt.Sprintf("rules: [{name: daily, policy: fixedwindow %d/24h, by: ip}]\n", count))
		}
		allow(100)
		p := serve(t, "--config", limits, "--upstream", u.url, "--store", store)
		l := steadyLoad(t, p.proxy+"/")
		u.await(t, 100)
		for i, count := range [...]int{300, 200, 400} {
			allow(count)
			p.signal(syscall.SIGHUP)
			p.waitForLogTimes("msg=reloaded", i+1)
			u.await(t, int64(count)) // already reached if the limit was lowered
			require.Equal(t, http.StatusTooManyRequests, get(t, p.proxy))
		}
		write("rules: none\n")
		p.signal(syscall.SIGHUP)
		p.waitForLog("the old rules stay")
		require.Equal(t, http.StatusTooManyRequests, get(t, p.proxy))
		r := l.stop()

		require.Empty(t, r.failures)
		r.requireOnly(t, http.StatusOK, http.StatusTooManyRequests)
		require.EqualValues(t, 400, r.statuses[http.StatusOK])
		require.EqualValues(t, 400, u.admitted())
	}
}
