package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/faultsweep"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	server := shared.Postgres(t)
	faultsweep.Run(t, sweepSubjects(t, server.Addr(), ""))
}

func TestLimiterBehindPgBouncerIsCorrectDespiteFaults(t *testing.T) {
	faultsweep.Run(t, sweepSubjects(t, shared.PgBouncer(t).Addr(), "&default_query_exec_mode=exec"),
		faultproxy.DropRequest, faultproxy.LateRequest, faultproxy.CutReply, faultproxy.StallReply)
}

// sweepSubjects returns stores with one table. Each has a pool of two connections and a proxy in front
// of the address.
func sweepSubjects(t *testing.T, addr, settings string) func(t *testing.T) faultsweep.Subject {
	table := postgres.Options{Table: fmt.Sprint("sweep ", tables.Add(1))}
	direct := open(t, newPool(t, shared.Postgres(t).DSN()), table)
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
