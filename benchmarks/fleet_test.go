package benchmarks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/testing/servers"
)

// shared are the servers of this process. The processes of a fleet use the servers of the process
// that started them.
var shared servers.Shared

// Environment variables of the processes of a fleet.
const (
	memberOf      = "SLUICE_BENCH_WORK"
	memberAs      = "SLUICE_BENCH_CONTENDER"
	memberWarmUp  = "SLUICE_BENCH_STRETCH"
	redisAddr     = "SLUICE_BENCH_REDIS"
	postgresAddr  = "SLUICE_BENCH_POSTGRES"
	sqliteDir     = "SLUICE_BENCH_SQLITE"
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

// A process of a fleet sends a report when it is ready and after each turn.
type report struct {
	Began, Ended time.Time
	Pace         measurement
}

// A fleet is several processes that run one limiter.
type fleet struct {
	t       testing.TB
	of      serverLimiter
	members []*process
	ready   time.Time // when the last member was ready for its next turn
}

// A process is one process of a fleet, from the side of the test.
type process struct {
	cmd     *exec.Cmd
	turns   io.WriteCloser // receives the length of each turn
	reports *json.Decoder
}

// startFleet starts the processes. It returns when all are connected and warmed up.
func (w *work) startFleet(t testing.TB, c serverLimiter) *fleet {
	f := &fleet{t: t, of: c}
	for range w.processes {
		f.members = append(f.members, w.start(t, c))
	}
	f.reports()
	return f
}

// turn runs one turn in all processes at the same time.
func (f *fleet) turn(length time.Duration) measurement {
	ready := f.ready
	f.begin(length)
	var measurements []measurement
	for _, r := range f.reports() {
		if r.Began.Before(ready) {
			f.t.Fatalf("%s: a process started before all were ready", f.of.name)
		}
		measurements = append(measurements, r.Pace)
	}
	return merged(measurements)
}

func (f *fleet) begin(length time.Duration) {
	for _, m := range f.members {
		if _, err := fmt.Fprintln(m.turns, length); err != nil {
			f.t.Fatal(f.of.name, err)
		}
	}
}

// reports waits for a report of each process.
func (f *fleet) reports() (all []report) {
	for _, m := range f.members {
		var r report
		if err := m.reports.Decode(&r); err != nil {
			f.t.Fatalf("%s: a process ended before its report: %v", f.of.name, err)
		}
		all = append(all, r)
	}
	f.ready = slices.MaxFunc(all, func(a, b report) int { return a.Ended.Compare(b.Ended) }).Ended
	return all
}

// end stops the processes.
func (f *fleet) end() {
	for _, m := range f.members {
		m.turns.Close()
	}
	for _, m := range f.members {
		if err := m.cmd.Wait(); err != nil {
			f.t.Error(f.of.name, err)
		}
	}
}

func (w *work) start(t testing.TB, c serverLimiter) *process {
	read, write, err := os.Pipe()
	must(t, err)
	defer write.Close()
	t.Cleanup(func() { read.Close() })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberOf+"="+w.title(), memberAs+"="+c.name, memberWarmUp+"="+stretch.String())
	cmd.ExtraFiles, cmd.Stderr = []*os.File{write}, os.Stderr
	turns, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{cmd, turns, json.NewDecoder(read)}
}

// share sets the environment variable with the database of this process and the fleet. restore
// removes it.
func (w *work) share(t testing.TB) (restore func()) {
	where := map[string]func(testing.TB) (name, value string){
		"redis":    func(t testing.TB) (string, string) { return redisAddr, redisAddress(t) },
		"postgres": func(t testing.TB) (string, string) { return postgresAddr, postgresAddress(t) },
		"sqlite":   func(t testing.TB) (string, string) { return sqliteDir, t.TempDir() },
	}
	name, value := where[w.area](t)
	must(t, os.Setenv(name, value))
	return func() { os.Unsetenv(name) }
}

// member is the main function of a process of a fleet. It runs a turn for each line of its
// standard input.
func member() {
	var err error
	if *stretch, err = time.ParseDuration(os.Getenv(memberWarmUp)); err != nil {
		panic(err)
	}
	all := workloads()
	w := all[slices.IndexFunc(all, func(w work) bool { return w.title() == os.Getenv(memberOf) })]
	c := w.limiters[slices.IndexFunc(w.limiters, func(c serverLimiter) bool { return c.name == os.Getenv(memberAs) })]
	testing.Init() // for the testing.TB of a process that runs no test
	callers := w.loadGenerator(c.open(memberTB{}, w.count(), w.period()))
	warm := callers.warmUp()
	if err := c.check(warm); err != nil {
		memberTB{}.Fatal(err)
	}
	reports := json.NewEncoder(os.NewFile(reportOnPipe3, "reports"))
	send(reports, report{Ended: time.Now()})
	for turns := bufio.NewScanner(os.Stdin); turns.Scan(); {
		length, err := time.ParseDuration(turns.Text())
		if err != nil {
			panic(err)
		}
		began := time.Now()
		p := callers.run(length)
		send(reports, report{began, time.Now(), p})
	}
}

func send(reports *json.Encoder, r report) {
	if err := reports.Encode(r); err != nil {
		panic(err)
	}
}

// memberTB ends the process on a failure, and does no clean-up.
type memberTB struct{ testing.TB }

func (memberTB) Helper()        {}
func (memberTB) Cleanup(func()) {}
func (memberTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
