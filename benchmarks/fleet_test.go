package benchmarks

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/servers"
)

// shared are the servers of this process. A member of a fleet uses those of the
// process that started it.
var shared servers.Shared

const (
	memberOf      = "SLUICE_BENCH_WORK"
	memberAs      = "SLUICE_BENCH_CONTENDER"
	redisAddr     = "SLUICE_BENCH_REDIS"
	memberPace    = "SLUICE_BENCH_STRETCH"
	reportOnPipe3 = 3
)

func TestMain(m *testing.M) {
	if os.Getenv(memberOf) != "" {
		member()
		return
	}
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

// A report is what a member tells: first that it is ready, and in the end its pace.
type report struct {
	At   time.Time // when it was ready, or began
	Pace pace
}

// A process is a member of a fleet as the test sees it.
type process struct {
	name    string
	cmd     *exec.Cmd
	start   io.Closer // that it waits for
	reports *json.Decoder
}

// fleet is a turn of several processes at once.
func (w *work) fleet(t testing.TB, c contender) (sum pace) {
	ready, done := w.together(t, c)
	if late := latest(ready); earliest(done).Before(late) {
		t.Fatalf("%s: a member began before all were ready", c.name)
	}
	paces := make([]pace, len(done))
	for i, r := range done {
		paces[i] = r.Pace
	}
	sum = median(paces)
	sum.PerSecond = 0
	for _, p := range paces {
		sum.PerSecond += p.PerSecond
	}
	return sum
}

// together starts the members, lets them begin when all of them are connected and ready,
// and returns their reports.
func (w *work) together(t testing.TB, c contender) (ready, done []report) {
	members := make([]*process, w.processes)
	for i := range members {
		members[i] = w.start(t, c)
	}
	for _, m := range members {
		ready = append(ready, m.report(t))
	}
	for _, m := range members {
		m.start.Close()
	}
	for _, m := range members {
		done = append(done, m.report(t))
		if err := m.cmd.Wait(); err != nil {
			t.Fatal(c.name, err)
		}
	}
	return ready, done
}

func (w *work) start(t testing.TB, c contender) *process {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	t.Cleanup(func() { read.Close() })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberOf+"="+w.name, memberAs+"="+c.name,
		redisAddr+"="+redisAddress(t), memberPace+"="+stretch.String())
	cmd.ExtraFiles, cmd.Stderr = []*os.File{write}, os.Stderr
	start, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{c.name, cmd, start, json.NewDecoder(read)}
}

func (p *process) report(t testing.TB) (r report) {
	if err := p.reports.Decode(&r); err != nil {
		t.Fatalf("%s: a member ended before its report: %v", p.name, err)
	}
	return r
}

func latest(reports []report) time.Time {
	return slices.MaxFunc(reports, func(a, b report) int { return a.At.Compare(b.At) }).At
}

func earliest(reports []report) time.Time {
	return slices.MinFunc(reports, func(a, b report) int { return a.At.Compare(b.At) }).At
}

// member is one process of a fleet. It makes ready, waits until its standard input ends,
// and then works for a stretch of time.
func member() {
	length, err := time.ParseDuration(os.Getenv(memberPace))
	if err != nil {
		panic(err)
	}
	all := works()
	w := all[slices.IndexFunc(all, func(w work) bool { return w.name == os.Getenv(memberOf) })]
	c := w.contenders[slices.IndexFunc(w.contenders, func(c contender) bool { return c.name == os.Getenv(memberAs) })]
	testing.Init() // for the testing.TB of a process that runs no test
	decide, keys := c.open(memberTB{}, plenty, plentyPeriod), w.traffic()
	crowd(decide, keys, w.goroutines, length/4, isAnything)
	reports := json.NewEncoder(os.NewFile(reportOnPipe3, "reports"))
	if err := reports.Encode(report{At: time.Now()}); err != nil {
		panic(err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		panic(err)
	}
	began := time.Now()
	if err := reports.Encode(report{began, crowd(decide, keys, w.goroutines, length, isAllowed)}); err != nil {
		panic(err)
	}
}

// memberTB fails by ending the process, and cleans nothing up.
type memberTB struct{ testing.TB }

func (memberTB) Helper()        {}
func (memberTB) Cleanup(func()) {}
func (memberTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

// The members of a fleet begin when all of them are ready.
func TestAFleetStartsTogether(t *testing.T) {
	defer func(length time.Duration) { *stretch = length }(*stretch)
	*stretch = 20 * time.Millisecond
	w := works()[slices.IndexFunc(works(), func(w work) bool { return w.processes > 1 })]
	for range 3 {
		ready, done := w.together(t, w.contenders[0])
		require.Len(t, done, w.processes)
		require.True(t, latest(ready).Before(earliest(done)), "ready: %v, began: %v", ready, done)
		for _, r := range done {
			require.Positive(t, r.Pace.PerSecond)
			require.Zero(t, r.Pace.Failed)
		}
	}
}
