package fleet

import (
	"encoding/gob"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// An entry is one decision as its process saw it.
type entry struct {
	Member, Caller, Number int // who asked, and for the how manyth time
	Key                    string
	Cost                   int64
	Call, Return           int64 // readings of the clock before and after; Return is 0 before it returned
	Now                    int64 // the time that counted, in ns since 1970
	Steps                  [rules]step
	Fate                   fate
	Err                    string
	Cached                 bool
	Attempts               int
	Took                   time.Duration // by the machine's clock
}

// A step is what one rule made of it: the state it found and the one it left,
// the same where it paid nothing.
type step struct {
	Found, Next []byte
	Result      algo.Result
}

// fate is what became of a decision.
type fate int

const (
	begun    fate = iota // about to be committed; its caller has left or its process died
	admitted             // committed, and the caller knows
	denied
	refused // an error that proves that nothing was paid
	unknown // an error that leaves it open
)

// allowed reports whether both rules allow.
func (e *entry) allowed() bool { return e.Steps[0].Result.Allowed && e.Steps[1].Result.Allowed }

// A decision is what a caller asked for the how manyth time; it may have several
// entries.
type decision struct{ member, caller, number int }

func (e *entry) decision() decision { return decision{e.Member, e.Caller, e.Number} }

// A journal is written entry by entry, so that who is killed leaves all that it
// knew.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	encoder *gob.Encoder
}

func newJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: f, encoder: gob.NewEncoder(f)}, nil
}

func (j *journal) write(e *entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.encoder.Encode(e)
}

// readJournal reads all entries. Of a process that was killed the very last may
// be cut off.
func readJournal(path string) (entries []*entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for decoder := gob.NewDecoder(f); ; {
		e := new(entry)
		switch err := decoder.Decode(e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return entries, nil
		case err != nil:
			return nil, err
		}
		entries = append(entries, e)
	}
}
