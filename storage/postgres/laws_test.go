package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/faultproxy"
	"github.com/sluice-go/sluice/internal/testing/faultsweep"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// newPair returns a pair of stores on tables that no other test uses, and the quoted names of the tables.
func newPair(t *testing.T, p *pgxpool.Pool) (h storagetest.Harness, names []string) {
	table := fmt.Sprintf("laws %d", tables.Add(1))
	var stores []*postgres.Store
	for _, o := range []postgres.Options{{Table: table}, {Table: table + `"`, Schema: "public"}} {
		s := open(t, p, o)
		s.SetLockTimeout(time.Minute)
		stores, names = append(stores, s), append(names, pgx.Identifier{o.Table}.Sanitize())
	}
	advance := func(d time.Duration) {
		for _, name := range names {
			exec(t, p, "UPDATE "+name+" SET expires_at = expires_at - $1::interval, purge_at = purge_at - $1::interval", d)
		}
	}
	dropWrites := func(key string) {
		exec(t, p, fmt.Sprintf(`CREATE OR REPLACE FUNCTION drop_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE OR REPLACE TRIGGER "drop %x" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.key = decode('%x', 'hex')) EXECUTE FUNCTION drop_write()`, key, names[0], key))
	}
	return storagetest.Harness{Store: stores[0], Other: stores[1], Advance: advance, DropWrites: dropWrites, Slack: time.Microsecond}, names
}

// Without prepared statements the reply is in text format. The formats of bytea and of times are settings of the session.
func TestLaws(t *testing.T) {
	for name, dsn := range map[string]string{
		"prepared statements":    shared.Postgres(t).DSN(),
		"text format":            shared.Postgres(t).DSN() + "&default_query_exec_mode=simple_protocol&bytea_output=escape&DateStyle=German",
		"exec, behind PgBouncer": shared.PgBouncer(t).DSN() + "&default_query_exec_mode=exec",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoolAt(t, dsn)
			h, tables := newPair(t, p)
			storagetest.Run(t, func(t *testing.T) storagetest.Harness { // it takes long to create the tables for each law
				exec(t, p, "TRUNCATE "+strings.Join(tables, ", ")+"; DROP FUNCTION IF EXISTS drop_write CASCADE")
				return h
			})
		})
	}
}

func TestRunDoesNotDependOnSessionSettings(t *testing.T) {
	h, _ := newPair(t, newPool(t, "&standard_conforming_strings=off&bytea_output=escape&search_path=public&TimeZone=Asia/Kolkata&IntervalStyle=iso_8601"+
		"&default_transaction_isolation=serializable&plan_cache_mode=force_custom_plan"))
	laws := storagetest.Laws()
	i := slices.IndexFunc(laws, func(l storagetest.Law) bool { return l.Name == "any batch is decided as in Go" })
	require.NoError(t, laws[i].Check(h))
}

// Without functions, the limiter decides by Load and CompareAndSwap.
func TestLimiterIsCorrectDespiteAnyFault(t *testing.T) {
	some := []faultproxy.Kind{faultproxy.DropRequest, faultproxy.LateRequest, faultproxy.CutReply, faultproxy.StallReply}
	direct := shared.Postgres(t).Addr()
	t.Run("batches", func(t *testing.T) { sweep(t, direct, "", false, faultproxy.Kinds()) })
	t.Run("swaps", func(t *testing.T) { sweep(t, direct, "", true, some) })
	t.Run("PgBouncer", func(t *testing.T) { sweep(t, shared.PgBouncer(t).Addr(), "&default_query_exec_mode=exec", false, some) })
}

// sweep runs the limiter on stores with one table. Each has a pool of two connections and a proxy in front of the address.
func sweep(t *testing.T, addr, settings string, noFunctions bool, kinds []faultproxy.Kind) {
	o := postgres.Options{Table: fmt.Sprint("sweep ", tables.Add(1)), NoFunctions: noFunctions}
	direct := open(t, newPool(t, ""), o)
	faultsweep.Run(t, func(t *testing.T) faultsweep.Subject {
		proxy := faultproxy.Postgres(t, addr)
		return faultsweep.Subject{Proxy: proxy, Store: storeOn(t, newPoolWithoutPings(t, proxy, "&pool_max_conns=2"+settings), o), Direct: direct}
	}, kinds...)
}

func newPoolWithoutPings(t *testing.T, proxy *faultproxy.Proxy, settings string) *pgxpool.Pool {
	return newPoolAt(t, servers.PostgresDSN(proxy.Addr())+settings, func(c *pgxpool.Config) {
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
}
