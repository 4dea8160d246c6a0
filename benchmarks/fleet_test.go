package benchmarks

import (
	"fmt"
	"io"
	"net/rpc"
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
	memberOf     = "SLUICE_BENCH_WORK"
	memberAs     = "SLUICE_BENCH_CONTENDER"
	memberWarmUp = "SLUICE_BENCH_STRETCH"
	redisAddr    = "SLUICE_BENCH_REDIS"
	postgresAddr = "SLUICE_BENCH_POSTGRES"
	sqliteDir    = "SLUICE_BENCH_SQLITE"
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

// A fleet is several processes that run one limiter. The test calls the methods of Member in each.
type fleet struct {
	t       testing.TB
	of      serverLimiter
	members []*rpc.Client
}

// turn runs one turn in all processes at the same time.
func (f *fleet) turn(length time.Duration) Measurement {
	var calls []*rpc.Call
	for _, m := range f.members {
		calls = append(calls, m.Go("Member.Run", length, new(Measurement), nil))
	}
	var measurements []Measurement
	for _, call := range calls {
		if err := (<-call.Done).Error; err != nil {
			f.t.Fatalf("%s: a process failed: %v", f.of.name, err)
		}
		measurements = append(measurements, *call.Reply.(*Measurement))
	}
	return merged(measurements)
}

// end stops the processes.
func (f *fleet) end() {
	for _, m := range f.members {
		_ = m.Close()
	}
}

// pipes is a connection to another process.
type pipes struct {
	io.Reader
	io.WriteCloser
}

func (w *work) start(t testing.TB, c serverLimiter) *rpc.Client {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberOf+"="+w.title(), memberAs+"="+c.name, memberWarmUp+"="+stretch.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return rpc.NewClient(pipes{out, in})
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

// Member is a process of a fleet, from its own side.
type Member struct{ callers loadGenerator }

// Run runs the callers for that time.
func (m *Member) Run(length time.Duration, result *Measurement) error {
	*result = m.callers.run(length)
	return nil
}

// member is the main function of a process of a fleet. It ends when its standard input ends.
func member() {
	var err error
	*stretch, err = time.ParseDuration(os.Getenv(memberWarmUp))
	must(memberTB{}, err)
	all := workloads()
	w := all[slices.IndexFunc(all, func(w work) bool { return w.title() == os.Getenv(memberOf) })]
	c := w.limiters[slices.IndexFunc(w.limiters, func(c serverLimiter) bool { return c.name == os.Getenv(memberAs) })]
	testing.Init() // for the testing.TB of a process that runs no test
	callers := w.loadGenerator(c.open(memberTB{}, w.count(), w.period()))
	must(memberTB{}, c.check(callers.warmUp()))
	server := rpc.NewServer()
	must(memberTB{}, server.Register(&Member{callers}))
	server.ServeConn(pipes{os.Stdin, os.Stdout})
}

// memberTB ends the process on a failure, and does no clean-up.
type memberTB struct{ testing.TB }

func (memberTB) Helper()        {}
func (memberTB) Cleanup(func()) {}
func (memberTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
