package readme

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/storage"
)

func limited(next http.Handler, store storage.Store) (http.Handler, error) {
	client, err := httplimit.ClientIP{}.Key() // behind a proxy, set Trusted to its addresses
	if err != nil {
		return nil, err
	}
	limiter, err := sluice.For(store, sluice.By("client", client, "gcra 100/m burst=20"))
	if err != nil {
		return nil, err
	}
	return httplimit.Handler(limiter, next, httplimit.Options{}), nil
}

func TestAServerIsLimited(t *testing.T) {
	h, err := limited(http.NotFoundHandler(), nil)
	require.NoError(t, err)
	denied := 0
	for range 50 { // one comes back every 600 ms
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, []string{`"client";q=20;w=12`}, w.Header().Values("RateLimit-Policy"))
		if w.Code == http.StatusTooManyRequests {
			require.Equal(t, []string{"1"}, w.Header().Values("Retry-After"))
			denied++
		}
	}
	require.Positive(t, denied)
	require.LessOrEqual(t, denied, 30)
}
