// Package fleet tests limiters in several processes that share a store, with many callers in each
// process and with servers that fail. The processes are copies of the test binary.
//
// The tests promise:
//
//   - Several processes admit exactly what one process may admit (exact_limit_test.go), also if the
//     clocks of the processes differ.
//   - Under contention, each decision is one that the policies allow at its time and in its order, and
//     no denial is wrong (contention_test.go, linearizable_test.go).
//   - A killed server or process loses nothing that its settings write to disk (crash_test.go).
//     Limiters follow their failure policy in an outage and recover by themselves
//     (outage_test.go).
//   - No more units are held than the policy inflight allows. The units of a killed process return by their TTL (held_test.go).
//   - Calls that are bought ahead stay within the bound for them (prepay_test.go).
//
// Each process writes a journal of its decisions: the state that a decision found, its time and its
// result. The verifier reconstructs from all journals the order in which the decisions were committed.
// It replays this order with Policy.Step, and compares all results, the bounds and the stored states
// (verifier_test.go). Faulty stores test the verifier (faulty_stores_test.go).
//
// The clock is a number in memory that all processes share. Each reading advances it, so the results do
// not depend on the speed of the machine. Units are held by the clock of the machine. The times of calls and returns in the journal
// limit when units can be held, so these results do not depend on the speed either.
package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// longTimeout is longer than any call or step of a test takes.
const longTimeout = 90 * time.Second

// fleet is a number of processes that use one store.
type fleet struct {
	t       *testing.T
	task    task // of each member
	page    sharedMemory
	members []*process
	here    int           // how many members have worked in this process
	store   storage.Store // a store of the test process, with the same records
}

// process is a copy of the test binary in its own process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
}

// startSelf starts a process that finds its work in an environment variable.
func startSelf(t *testing.T, variable, work string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), variable+"="+work), os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdout, err = p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	hung := time.AfterFunc(5*longTimeout, p.kill)
	t.Cleanup(func() { hung.Stop(); p.kill() })
	return p
}

// kill kills a process with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// newFleet returns a fleet that uses the store at an address. If it is empty, the test sets the store and uses no processes.
func newFleet(t *testing.T, address string, workload int, timeout time.Duration) *fleet {
	dir := t.TempDir()
	f := &fleet{t: t, task: task{
		Address:   address,
		Namespace: fmt.Sprintf("%s %x", t.Name(), rand.Uint64()),
		Workload:  workload,
		Callers:   16,
		Timeout:   timeout,
		Page:      filepath.Join(dir, "page"),
		Journal:   filepath.Join(dir, "journal"),
	}}
	var err error
	f.page, err = openSharedMemory(f.task.Page)
	require.NoError(t, err)
	if address != "" {
		f.store = openStore(t, address)
	}
	return f
}

// start starts n more members, with skewed clocks if skews are given. They begin at the same time.
func (f *fleet) start(n int, skews ...time.Duration) {
	f.t.Helper()
	var started []*process
	for i := range n {
		task := f.task
		task.Member = len(f.members)
		task.Journal = f.journal(task.Member)
		if i < len(skews) {
			task.Skew = skews[i]
		}
		text, err := json.Marshal(task)
		require.NoError(f.t, err)
		started = append(started, startSelf(f.t, taskVariable, string(text)))
		f.members = append(f.members, started[i])
	}
	for _, p := range started {
		line, err := bufio.NewReader(p.stdout).ReadString('\n')
		require.NoError(f.t, err)
		require.Equal(f.t, "ready\n", line)
	}
	for _, p := range started {
		_, err := io.WriteString(p.stdin, "go\n")
		require.NoError(f.t, err)
	}
}

// workHere runs more members in this process, one on each store, until each has had enough admissions.
func (f *fleet) workHere(stores ...storage.Store) {
	f.t.Helper()
	first := f.here
	f.here += len(stores)
	require.NoError(f.t, concurrently(len(stores), func(i int) error {
		own := f.task
		own.Member, own.Journal = first+i, f.journal(first+i)
		return own.work(stores[i])
	}))
}

func (f *fleet) journal(member int) string { return fmt.Sprint(f.task.Journal, member) }

// await waits until a counter of each member has increased by n.
func (f *fleet) await(what string, members []int, counter func(counters) int64, n int64) {
	f.t.Helper()
	wanted := map[int]int64{}
	for _, m := range members {
		wanted[m] = counter(f.page.counters(m)) + n
	}
	for m, want := range wanted {
		enough := func() bool { return counter(f.page.counters(m)) >= want }
		require.Eventually(f.t, enough, longTimeout, 2*time.Millisecond, "member %d: %d more %s", m, n, what)
	}
}

func admissions(d counters) int64 { return d.admitted.Load() }
func failures(d counters) int64   { return d.failed.Load() }

// finish stops the members that were not killed, and waits until they have ended.
func (f *fleet) finish(killed ...int) {
	f.t.Helper()
	f.page.stop()
	for i, p := range f.members {
		if slices.Contains(killed, i) {
			continue
		}
		timer := time.AfterFunc(longTimeout, func() { p.cmd.Process.Kill() })
		err := p.cmd.Wait()
		timer.Stop()
		require.NoError(f.t, err, "member %d", i)
	}
}

// runWithKills runs four members, and kills one and starts another three times. Before each change, and at the end, all living members
// get that many admissions.
func (f *fleet) runWithKills(n int64) {
	f.t.Helper()
	living, killed := []int{0, 1, 2, 3}, []int(nil)
	f.start(len(living))
	for range 3 {
		f.await("admissions", living, admissions, n)
		f.members[living[1]].kill()
		killed = append(killed, living[1])
		living = append([]int{living[0]}, append(living[2:], len(f.members))...)
		f.start(1)
	}
	f.await("admissions", living, admissions, n)
	f.finish(killed...)
}

// newVerifier reads the journals of all members and the stored states.
func (f *fleet) newVerifier() *verifier {
	f.t.Helper()
	workload := &workloads[f.task.Workload]
	v := &verifier{workload: workload, policies: workload.policies(), entries: readJournals[entry](f), stored: map[stateKey]string{}}
	for _, e := range v.entries {
		for r := range ruleNames {
			key := v.stateKeyOf(r, e.Key)
			if _, known := v.stored[key]; !known {
				v.stored[key] = f.stored(workload.storedKey(f.task.Namespace, r, e.Key))
			}
		}
	}
	return v
}

// stored returns the state under the name of a record. The first attempt may use a connection that was open when the server was
// killed.
func (f *fleet) stored(name string) string {
	f.t.Helper()
	records, _, err := f.store.Load(context.Background(), name)
	if errors.Is(err, storage.ErrUnavailable) {
		records, _, err = f.store.Load(context.Background(), name)
	}
	require.NoError(f.t, err)
	return string(records[0].State)
}

// requireValidEventually verifies a run with cancelled calls. Their requests may be stored after their
// processes have ended.
func (f *fleet) requireValidEventually() *verifier {
	f.t.Helper()
	for i := 0; ; i++ {
		v := f.newVerifier()
		if faults := v.verify(); i == 200 || len(faults) == 0 {
			require.Empty(f.t, faults)
			return v
		}
		time.Sleep(50 * time.Millisecond)
	}
}
