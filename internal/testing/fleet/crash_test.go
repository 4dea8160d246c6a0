package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
)

const (
	shortTimeout = 250 * time.Millisecond // shorter than an outage
	slack        = time.Second            // how late a call on a busy machine may end
	thinkTime    = 100 * time.Millisecond // so that no process slows down the others
)

// With synchronous_commit, the default of PostgreSQL, and with appendfsync always, each acknowledged write is on disk. With
// everysec, the default of appendonly, a kill may lose two seconds.
func TestKilledServerLosesNothingThatIsOnDisk(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		server := servers.Postgres(t)
		crash(t, server.DSN(), server)
	})
	t.Run("Redis with appendfsync always", func(t *testing.T) {
		server := servers.Redis(t, "appendonly yes", "appendfsync always")
		crash(t, redisAt(server), server)
	})
}

// crash runs four members while their server is killed and started again. In between, each call fails
// within its timeout. Then the members recover by themselves.
func crash(t *testing.T, address string, server interface {
	Kill()
	Start() error
}) {
	t.Parallel()
	all := []int{0, 1, 2, 3}
	f := newFleet(t, address, longWindow, shortTimeout)
	f.task.Callers, f.task.Think = 8, thinkTime
	f.start(len(all))
	f.await("admissions", all, admissions, 3)
	server.Kill()
	f.await("failures", all, failures, int64(f.task.Callers))
	require.NoError(t, server.Start())
	f.await("admissions", all, admissions, 3)
	f.finish()
	unavailable := map[int]bool{} // the members that had ErrUnavailable
	for _, e := range f.requireValidEventually().entries {
		require.LessOrEqual(t, e.Took, shortTimeout+slack, e)
		if strings.Contains(e.Err, storage.ErrUnavailable.Error()) {
			unavailable[e.Member] = true
		}
	}
	require.Len(t, unavailable, len(f.members))
}

// In WAL mode, a commit survives a kill of its process, and an incomplete commit is ignored. The other
// processes have no errors.
func TestKilledProcessLosesNothingInSQLite(t *testing.T) {
	t.Parallel()
	address := sqliteFile(t)
	f := newFleet(t, address, longWindow, longTimeout)
	f.task.Callers, f.task.Think, f.task.Careful = 8, thinkTime, true
	f.runWithKills(3)
	v := f.requireValidEventually()
	for _, e := range v.entries {
		require.Empty(t, e.Err)
	}
}
