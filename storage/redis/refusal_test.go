package redis_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

// A server that refuses a connection or a command says why. Every error contains that, also after the timeout
// of the limiter and while its circuit breaker is open.
func TestErrorsHaveTheReasonOfTheServer(t *testing.T) {
	t.Parallel()
	const full = "max number of clients reached"
	holdsTheLastConnection := func(t *testing.T, server *servers.RedisServer) {
		require.NoError(t, newClient(t, server.Addr()).Ping(t.Context()).Err())
		do(t, server, "CONFIG", "SET", "maxclients", "1")
	}
	withPassword := func(t *testing.T, server *servers.RedisServer) { do(t, server, "CONFIG", "SET", "requirepass", "x") }
	web := httptest.NewUnstartedServer(nil)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	another := web.Listener.Addr().String()
	none := func(*testing.T, *servers.RedisServer) {}
	for name, c := range map[string]struct {
		reason  string
		prepare func(*testing.T, *servers.RedisServer)
		options goredis.Options
	}{
		"too many clients":                {full, holdsTheLastConnection, goredis.Options{}},
		"too many clients, protocol 2":    {full, holdsTheLastConnection, goredis.Options{Protocol: 2, DisableIdentity: true}},
		"no password":                     {"NOAUTH", withPassword, goredis.Options{}},
		"wrong password":                  {"WRONGPASS", withPassword, goredis.Options{Password: "y"}},
		"unknown database":                {"DB index is out of range", none, goredis.Options{DB: 99}},
		"no right to run scripts and GET": {"NOPERM", forbids("get", "eval", "evalsha"), goredis.Options{Username: "limiter", Password: "x"}},
		"a certificate of another name":   {"x509: ", none, goredis.Options{Addr: another, DialerRetries: 1, TLSConfig: &tls.Config{ServerName: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Redis(t)
			c.prepare(t, server)
			c.options.Addr = cmp.Or(c.options.Addr, server.Addr())
			s := open(t, newClientWith(t, c.options), "")
			require.Eventually(t, func() bool { // on a busy machine, the server does not give the reason in time
				_, _, err := s.Load(t.Context(), "k")
				return err != nil && strings.Contains(err.Error(), c.reason)
			}, time.Minute, time.Millisecond)
			_, _, err := s.CompareAndSwap(t.Context(), creating("k", "x"))
			require.ErrorContains(t, err, c.reason)
			require.ErrorIs(t, err, storage.ErrNotApplied)
			_, p := programOf(t, algo.Per(2, time.Hour))
			b := oneRequest(p, "k")
			run(t, s, b)
			require.ErrorContains(t, b.Err, c.reason)
			require.ErrorIs(t, b.Err, storage.ErrNotApplied)
			l, err := sluice.Options[string]{Timeout: 2 * time.Second}.New(s, sluice.Rule[string]{Name: "r", Spec: "gcra 1/s"})
			require.NoError(t, err)
			for range 2 {
				_, err = l.Allow(context.Background(), "k")
				require.ErrorContains(t, err, c.reason)
			}
		})
	}
}

// forbids returns a function that creates the user limiter, who may not use some commands.
func forbids(commands ...string) func(*testing.T, *servers.RedisServer) {
	return func(t *testing.T, server *servers.RedisServer) {
		do(t, server, append([]string{"ACL", "SETUSER", "limiter", "reset", "on", ">x"}, allBut(commands...)...)...)
	}
}
