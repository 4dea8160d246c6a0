package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
)

const (
	hasty    = 250 * time.Millisecond // a timeout that an outage exceeds
	slack    = time.Second            // by which a call on a busy machine may exceed its timeout
	thinking = 100 * time.Millisecond // so that no process is in the way of the others
)

// Redis that was told to keep nothing forgets everything that was used, once:
// from then on the limits hold anew.
func TestRedisWithoutAppendonlyForgetsAllWhenItIsKilled(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	f := crash(t, redisAt(server), server)
	j := f.requireSettled(4, 1)
	require.Len(t, j.chains[lane{1, ""}].lives, 2)
}

// With an fsync for every write an answer means that it is on disk. Between
// fsyncs (everysec, the default of appendonly) a kill may forget up to two
// seconds of use.
func TestRedisThatAppendsAlwaysForgetsNothingWhenItIsKilled(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "appendonly yes", "appendfsync always")
	f := crash(t, redisAt(server), server)
	f.requireSettled(4, 0)
}

// With synchronous_commit, which is the default, an answer means that it is in
// the log.
func TestPostgresForgetsNothingWhenItIsKilled(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	f := crash(t, server.DSN(), server)
	f.requireSettled(4, 0)
}

// crash lets four members work on a server that is killed under them and
// started again. They fail in the meantime, every call within its timeout, and
// recover by themselves.
func crash(t *testing.T, place string, server interface {
	Kill()
	Start() error
}) *fleet {
	everyone := []int{0, 1, 2, 3}
	f := newFleet(t, place, slow, hasty).on(place)
	f.task.Callers, f.task.Think = 8, thinking
	f.start(len(everyone))
	f.await("admissions", everyone, admissions, 3)
	server.Kill()
	f.await("failures", everyone, failures, int64(f.task.Callers))
	require.NoError(t, server.Start())
	f.await("admissions", everyone, admissions, 3)
	f.finish()
	f.requireUnavailable(len(everyone), hasty)
	return f
}

// requireUnavailable requires that every member was told of the outage, and that every
// call ended within its timeout.
func (f *fleet) requireUnavailable(members int, timeout time.Duration) {
	f.t.Helper()
	told := map[int]bool{}
	for _, e := range f.judge(members).entries {
		require.LessOrEqual(f.t, e.Took, timeout+slack, e)
		if strings.Contains(e.Err, storage.ErrUnavailable.Error()) {
			told[e.Member] = true
		}
	}
	require.Len(f.t, told, members)
}

// A commit to a SQLite file in WAL mode survives the death of the process that
// made it, and one that is cut short counts not at all. The processes that live
// on notice nothing.
func TestSQLiteForgetsNothingWhenProcessesAreKilled(t *testing.T) {
	t.Parallel()
	place := sqliteFile(t)
	f := newFleet(t, place, slow, long).on(place)
	f.task.Callers, f.task.Think, f.task.Careful = 8, thinking, true
	living, killed := []int{0, 1, 2, 3}, []int(nil)
	f.start(len(living))
	for range 3 {
		f.await("admissions", living, admissions, 3)
		f.members[living[1]].kill()
		killed = append(killed, living[1])
		living = append([]int{living[0]}, append(living[2:], len(f.members))...)
		f.start(1)
	}
	f.await("admissions", living, admissions, 3)
	f.finish(killed...)
	j := f.requireSettled(len(f.members), 0)
	for _, e := range j.entries {
		require.Empty(t, e.Err)
	}
}
