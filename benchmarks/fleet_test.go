package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/servers"
)

// shared are the servers of this process. A member of a fleet uses those of the
// process that started it.
var shared servers.Shared

const (
	memberOf    = "SLUICE_BENCH_WORK"
	memberAs    = "SLUICE_BENCH_CONTENDER"
	redisAddr   = "SLUICE_BENCH_REDIS"
	memberPace  = "SLUICE_BENCH_STRETCH"
	paceOnPipe3 = 3
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

// fleet is a turn of several processes at once.
func (w *work) fleet(t testing.TB, c contender) (sum pace) {
	paces := make([]pace, w.processes)
	members := make([]*exec.Cmd, w.processes)
	pipes := make([]*os.File, w.processes)
	for i := range members {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		members[i], pipes[i] = exec.Command(os.Args[0]), read
		members[i].Env = append(os.Environ(), memberOf+"="+w.name, memberAs+"="+c.name,
			redisAddr+"="+redisAddress(t), memberPace+"="+stretch.String())
		members[i].ExtraFiles, members[i].Stderr = []*os.File{write}, os.Stderr
		if err := members[i].Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
	}
	for i, m := range members {
		err := json.NewDecoder(pipes[i]).Decode(&paces[i])
		pipes[i].Close()
		if ended := m.Wait(); ended != nil || err != nil {
			t.Fatal(c.name, ended, err)
		}
	}
	sum = median(paces)
	sum.PerSecond = 0
	for _, p := range paces {
		sum.PerSecond += p.PerSecond
	}
	return sum
}

// member is one process of a fleet.
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
	p := crowd(decide, keys, w.goroutines, length, isAllowed)
	if err := json.NewEncoder(os.NewFile(paceOnPipe3, "pace")).Encode(p); err != nil {
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
