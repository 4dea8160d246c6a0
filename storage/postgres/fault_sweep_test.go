package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/internal/faultsweep"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestEveryFaultAtEveryMessage(t *testing.T) {
	server := shared.Postgres(t)
	faultsweep.Run(t, proxied(t, server.Addr(), ""))
}

func TestEveryFaultBeforePgBouncer(t *testing.T) {
	faultsweep.Run(t, proxied(t, shared.PgBouncer(t).Addr(), "&default_query_exec_mode=exec"),
		faultproxy.DropRequest, faultproxy.LateRequest, faultproxy.CutReply, faultproxy.StallReply)
}

// proxied are stores on pools of two connections, by way of a proxy in front of
// the address, all on one table.
func proxied(t *testing.T, addr, settings string) func(t *testing.T) faultsweep.Subject {
	table := postgres.Options{Table: fmt.Sprint("sweep ", tables.Add(1))}
	direct := open(t, pool(t, shared.Postgres(t).DSN()), table)
	return func(t *testing.T) faultsweep.Subject {
		proxy := faultproxy.Postgres(t, addr)
		config, err := pgxpool.ParseConfig(servers.PostgresDSN(proxy.Addr()) + "&pool_max_conns=2" + settings)
		require.NoError(t, err)
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		s, err := postgres.New(p, table)
		require.NoError(t, err)
		return faultsweep.Subject{Proxy: proxy, Store: s, Direct: direct}
	}
}
