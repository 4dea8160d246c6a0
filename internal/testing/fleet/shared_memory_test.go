package fleet

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// sharedMemory is memory that all processes of a fleet share: a clock, and counters of each process.
type sharedMemory struct{ words *[pageWords]atomic.Int64 }

const (
	pageWords     = 512
	firstCounters = 8 // where the counters of the first member begin
)

// tick is how far each reading advances the clock. It is long, so that a limit that contention can
// use up has a long period, and no record expires while a test runs.
const tick = time.Minute

func openSharedMemory(path string) (sharedMemory, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return sharedMemory{}, err
	}
	defer f.Close()
	const size = pageWords * 8
	if err := f.Truncate(size); err != nil {
		return sharedMemory{}, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return sharedMemory{}, err
	}
	return sharedMemory{(*[pageWords]atomic.Int64)(unsafe.Pointer(&memory[0]))}, nil
}

func (p sharedMemory) read() int64 { return p.words[0].Add(1) }

func (p sharedMemory) now() time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(p.read()) * tick)
}

// stop stops the run.
func (p sharedMemory) stop()         { p.words[1].Store(1) }
func (p sharedMemory) stopped() bool { return p.words[1].Load() != 0 }

// counters are the counters of one member.
type counters struct{ admitted, failed *atomic.Int64 }

func (p sharedMemory) counters(member int) counters {
	w := p.words[firstCounters+2*member:]
	return counters{&w[0], &w[1]}
}
