package fleet

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A page is memory that all processes of a fleet share: their clock, and how far
// each has come.
type page struct{ words *[pageWords]atomic.Int64 }

const (
	pageWords = 512
	firstDesk = 8 // where the counts of the first member begin
)

// tick is what one reading of the clock takes. It is so long that limits which
// contention can use up take minutes of the machine's time to lapse: no record
// expires while a test runs.
const tick = time.Minute

func openPage(path string) (page, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return page{}, err
	}
	defer f.Close()
	const size = pageWords * 8
	if err := f.Truncate(size); err != nil {
		return page{}, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return page{}, err
	}
	return page{(*[pageWords]atomic.Int64)(unsafe.Pointer(&memory[0]))}, nil
}

func (p page) read() int64 { return p.words[0].Add(1) }

func at(reading int64) time.Time { return time.Unix(1e9, 0).Add(time.Duration(reading) * tick) }

func (p page) now() time.Time { return at(p.read()) }

// stop ends the run.
func (p page) stop()         { p.words[1].Store(1) }
func (p page) stopped() bool { return p.words[1].Load() != 0 }

// A desk has the counts of one member.
type desk struct{ admitted, denied, failed *atomic.Int64 }

func (p page) desk(member int) desk {
	w := p.words[firstDesk+4*member:]
	return desk{&w[0], &w[1], &w[2]}
}
