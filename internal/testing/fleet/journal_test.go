package fleet

import (
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
)

// entry is one decision in a journal.
type entry struct {
	Member, Caller, Number int // the caller, and the number of its call
	Key                    string
	Cost                   int64
	Call, Return           int64 // readings of the clock before and after the call; Return is 0 before the call has returned
	Now                    int64 // the time of the decision, in ns since 1970
	Steps                  [rules]step
	Outcome                outcome
	Err                    string
	Took                   time.Duration // by the clock of the machine
}

// step is the decision of one rule: the state before and after it. They are equal if nothing was paid.
type step struct {
	Found, Next []byte
	Result      algo.Result
}

// outcome is the outcome of a decision.
type outcome int

const (
	begun    outcome = iota // about to be committed; its call was cancelled or its process died
	admitted                // committed; the call has returned
	denied
	refused // an error that reports that nothing was paid
	unknown // an error that reports an unknown outcome
)

// allowed reports whether both rules allowed.
func (e *entry) allowed() bool { return e.Steps[0].Result.Allowed && e.Steps[1].Result.Allowed }

// decision identifies a decision. It may have several entries.
type decision struct{ member, caller, number int }

func (e *entry) decision() decision { return decision{e.Member, e.Caller, e.Number} }

// journal is written entry by entry, so that it is complete if the process is killed.
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

func (j *journal) write(e any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.encoder.Encode(e)
}

// readJournals reads the journals of all members.
func readJournals[E any](f *fleet) (all []*E) {
	f.t.Helper()
	paths, err := filepath.Glob(f.task.Journal + "*")
	require.NoError(f.t, err)
	for _, path := range paths {
		entries, err := readJournal[E](path)
		require.NoError(f.t, err)
		all = append(all, entries...)
	}
	return all
}

// readJournal reads all entries. The last entry of a killed process may be incomplete.
func readJournal[E any](path string) (entries []*E, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for decoder := gob.NewDecoder(f); ; {
		e := new(E)
		switch err := decoder.Decode(e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return entries, nil
		case err != nil:
			return nil, err
		}
		entries = append(entries, e)
	}
}
