package fleet

import (
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

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// long is what nothing takes.
const long = 90 * time.Second

// A fleet is the members at work on one store.
type fleet struct {
	t       *testing.T
	task    task // of every member
	page    page
	members []*process
	store   storage.Store // the test's own face of it
}

// A process is a member that is a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *os.File // its output
}

func newFleet(t *testing.T, place string, traffic int, timeout time.Duration) *fleet {
	dir := t.TempDir()
	f := &fleet{t: t, task: task{
		Place:     place,
		Namespace: fmt.Sprintf("%s %x", t.Name(), rand.Uint64()),
		Traffic:   traffic,
		Callers:   16,
		Timeout:   timeout,
		Page:      filepath.Join(dir, "page"),
		Journal:   filepath.Join(dir, "journal"),
	}}
	var err error
	f.page, err = openPage(f.task.Page)
	require.NoError(t, err)
	return f
}

// on makes the fleet one of processes on a place.
func (f *fleet) on(place string) *fleet {
	f.store = openStore(f.t, place)
	return f
}

// start starts n members more, with clocks that are skewed by so much or not at all, and
// lets them begin together.
func (f *fleet) start(n int, skews ...time.Duration) {
	f.t.Helper()
	var started []*process
	for i := range n {
		skew := time.Duration(0)
		if i < len(skews) {
			skew = skews[i]
		}
		started = append(started, f.spawn(skew))
	}
	for _, p := range started {
		p.awaitReady(f.t)
	}
	for _, p := range started {
		_, err := io.WriteString(p.stdin, "go\n")
		require.NoError(f.t, err)
	}
}

func (f *fleet) spawn(skew time.Duration) *process {
	f.t.Helper()
	own := f.task
	own.Member = len(f.members)
	own.Journal, own.Skew = f.journal(own.Member), skew
	text, err := json.Marshal(own)
	require.NoError(f.t, err)
	self, err := os.Executable()
	require.NoError(f.t, err)

	said, err := os.Create(own.Journal + ".log")
	require.NoError(f.t, err)
	p := &process{cmd: exec.Command(self), said: said}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = said, said
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, p.cmd.Start())
	f.t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait(); said.Close() })
	f.members = append(f.members, p)
	return p
}

func (f *fleet) journal(member int) string { return fmt.Sprint(f.task.Journal, member) }

func (p *process) log() string {
	text, _ := os.ReadFile(p.said.Name())
	return string(text)
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return p.log() != "" }, long, 5*time.Millisecond)
	require.Equal(t, "ready\n", p.log())
}

// kill ends a member with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// await waits until every one of the members has come further.
func (f *fleet) await(what string, members []int, further func(desk) int64, by int64) {
	f.t.Helper()
	before := map[int]int64{}
	for _, m := range members {
		before[m] = further(f.page.desk(m))
	}
	require.Eventually(f.t, func() bool {
		for _, m := range members {
			if further(f.page.desk(m)) < before[m]+by {
				return false
			}
		}
		return true
	}, long, 2*time.Millisecond, "every member: %d more %s", by, what)
}

func admissions(d desk) int64 { return d.admitted.Load() }
func failures(d desk) int64   { return d.failed.Load() }

// finish stops the members that were not killed and waits for their end.
func (f *fleet) finish(killed ...int) {
	f.t.Helper()
	f.page.stop()
	for i, p := range f.members {
		if slices.Contains(killed, i) {
			continue
		}
		timer := time.AfterFunc(long, func() { p.cmd.Process.Kill() })
		err := p.cmd.Wait()
		timer.Stop()
		require.NoError(f.t, err, p.log())
	}
}

// judge reads the journals of all members, and what is stored.
func (f *fleet) judge(members int) *judge {
	f.t.Helper()
	j := &judge{traffic: &traffics[f.task.Traffic], stored: map[lane]string{}}
	var err error
	j.policies, err = j.traffic.policies()
	require.NoError(f.t, err)
	for i := range members {
		entries, err := readJournal(f.journal(i))
		require.NoError(f.t, err)
		j.entries = append(j.entries, entries...)
	}
	keys := map[string]bool{}
	for _, e := range j.entries {
		keys[e.Key] = true
	}
	for key := range keys {
		for r := range ruleNames {
			j.stored[j.laneOf(r, key)] = f.stored(r, key)
		}
	}
	return j
}

// stored is the state of a rule and key at the end. A connection that was open
// when the server was killed may be the first to be asked.
func (f *fleet) stored(rule int, key string) string {
	f.t.Helper()
	name := traffics[f.task.Traffic].storedKey(f.task.Namespace, rule, key)
	state, err := f.load(name)
	if errors.Is(err, storage.ErrUnavailable) {
		state, err = f.load(name)
	}
	require.NoError(f.t, err)
	return state
}

func (f *fleet) load(name string) (state string, err error) {
	if s, ok := f.store.(driver.InPlace); ok {
		err = s.Update(context.Background(), at(-100_000), []string{name}, reader{&state}) // nothing had lapsed by then, by any clock
		return state, err
	}
	records, err := f.store.Load(context.Background(), name)
	if err != nil {
		return "", err
	}
	return string(records[0].State), nil
}

// reader is a decider that reads the state of one key and changes nothing.
type reader struct{ state *string }

func (r reader) Decide(found [][]byte, _ []driver.Change) error {
	*r.state = string(found[0])
	return nil
}

// requireSettled judges a run whose callers may have left: what they asked for
// may land after their processes have ended.
func (f *fleet) requireSettled(members, forgets int) *judge {
	f.t.Helper()
	for i := 0; ; i++ {
		j := f.judge(members)
		j.forgets = forgets
		if i == 200 || len(j.verdict()) == 0 {
			f.report(j, members)
			f.requireInnocent(j)
			return j
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// requireInnocent requires that the judge finds no fault, and that a limiter
// which remembers nothing says of every key what its last decision left.
func (f *fleet) requireInnocent(j *judge) {
	f.t.Helper()
	j.guilt = nil
	for _, fault := range j.verdict() {
		f.t.Error(fault)
	}
	if f.t.Failed() {
		return
	}
	for l, c := range j.chains {
		if l.rule != 0 {
			continue
		}
		f.requirePeek(j, c.key)
	}
}

// requirePeek looks at a key as of the time of the last decision under the second rule,
// whose state has not lapsed by then.
func (f *fleet) requirePeek(j *judge, key string) {
	f.t.Helper()
	all := j.chains[j.laneOf(1, key)]
	now := all.latest[len(all.latest)-1]
	limiter, err := j.traffic.limiter(compose.Options[*asked]{
		Namespace: f.task.Namespace,
		Clock:     func() time.Time { return now },
		Timeout:   long,
	}, f.store)
	require.NoError(f.t, err)
	d, err := limiter.Peek(context.Background(), &asked{entry: entry{Key: key, Cost: 1}})
	require.NoError(f.t, err)
	for r := range d.Results {
		c := j.chains[j.laneOf(r, key)]
		want, err := j.policies[r].Peek(c.entries[len(c.entries)-1].Steps[r].Next, now, 1)
		require.NoError(f.t, err)
		require.Equal(f.t, want, d.Results[r].Result, "rule %s, key %q", ruleNames[r], key)
	}
}
