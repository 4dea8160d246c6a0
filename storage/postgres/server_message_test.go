package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// A server that refuses a connection says why. Every error contains that, also after the timeout of the limiter
// and while its circuit breaker is open.
func TestErrorsHaveTheReasonWhyTheServerRefusesConnections(t *testing.T) {
	const sslmode, role, database = "sslmode=disable", "sluice@", "/sluice?"
	server := servers.Postgres(t, "max_connections = 6")
	p := newPool(t, server.DSN())
	for _, sql := range []string{"CREATE ROLE crowd LOGIN CONNECTION LIMIT 0", "CREATE ROLE guest LOGIN"} {
		_, err := p.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for reason, change := range map[string][2]string{
		`role "nobody" does not exist`:           {role, "nobody@"},
		`too many connections for role "crowd"`:  {role, "crowd@"},
		"remaining connection slots are reserve": {role, "guest@"}, // for superusers, who have all three
		`database "missing" does not exist`:      {database, "/missing?"},
		"server refused TLS connection":          {sslmode, "sslmode=require"},
	} {
		if strings.HasPrefix(reason, "remaining") {
			for range 3 {
				c, err := p.Acquire(t.Context())
				require.NoError(t, err)
				defer c.Release()
			}
		}
		t.Run(reason, func(t *testing.T) {
			s, err := postgres.New(newPool(t, strings.Replace(server.DSN(), change[0], change[1], 1)), postgres.Options{})
			require.NoError(t, err)
			require.ErrorContains(t, s.Migrate(t.Context()), reason)
			_, _, err = s.Load(t.Context(), "k")
			require.ErrorContains(t, err, reason)
			l, err := sluice.Options[string]{Timeout: shortTimeout}.New(s, sluice.Rule[string]{Name: "r", Spec: "gcra 1/s"})
			require.NoError(t, err)
			for range 3 {
				_, err = l.Allow(context.Background(), "k")
				require.ErrorIs(t, err, storage.ErrUnavailable)
				require.ErrorContains(t, err, reason)
			}
		})
	}
}

const shortTimeout = time.Second
