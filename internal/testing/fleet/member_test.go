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
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storage"
)

// task is the task of a member. A process gets it as JSON in the environment.
type task struct {
	Address   string // the address of the store; see openAddress
	Namespace string
	Workload  int // index of workloads
	Member    int
	Callers   int
	Timeout   time.Duration
	Page      string        // path of a file
	Journal   string        // path of a file
	Enough    int64         // the member stops after this many admissions; 0 means never
	Think     time.Duration // maximum time between two calls of a caller
	Careful   bool          // also write each decision to the journal before it is committed
	Holds     bool          // the member holds units; see holder
	Prepays   bool          // the member buys calls ahead; see spendPrepaid
	Skew      time.Duration // how far the member's clock is ahead of the shared clock
}

const taskVariable = "SLUICE_FLEET_TASK"

// runMember is the main function of a member process. It prints "ready", waits for a line, and then
// works until the run is stopped or its parent has ended.
func runMember(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	store, release, err := openAddress(t.Address)
	if err != nil {
		return err
	}
	defer release()
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, input)
		os.Exit(3) // the test process has ended
	}()
	return t.work(store)
}

// work makes calls until the run is stopped.
func (t task) work(store storage.Store) error {
	shared, err := openSharedMemory(t.Page)
	if err != nil {
		return err
	}
	journal, err := newJournal(t.Journal)
	if err != nil {
		return err
	}
	defer journal.file.Close()
	if t.Holds {
		h, err := t.newHolder(store, shared, journal)
		if err != nil {
			return err
		}
		return concurrently(t.Callers, h.call)
	}
	if t.Prepays {
		return t.spendPrepaid(store, shared, journal)
	}
	limiter, err := workloads[t.Workload].limiter(sluice.Options[*recordedCall]{
		Namespace: t.Namespace, Timeout: t.Timeout, Clock: func() time.Time { return shared.now().Add(t.Skew) },
	}, store)
	if err != nil {
		return err
	}
	m := &member{task: t, page: shared, counters: shared.counters(t.Member), journal: journal, limiter: limiter}
	return concurrently(t.Callers, m.call)
}

// concurrently calls call(0) to call(n-1) in n goroutines, and returns their errors.
func concurrently(n int, call func(i int) error) error {
	errs := make([]error, n)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { errs[i] = call(i) })
	}
	callers.Wait()
	return errors.Join(errs...)
}

// member is a member at work.
type member struct {
	task
	page     sharedMemory
	counters counters
	journal  *journal
	limiter  *sluice.Limiter[*recordedCall]
}

func (m *member) call(caller int) error {
	random := rand.New(rand.NewPCG(uint64(m.Member), uint64(caller)))
	for number := 0; !m.done(); number++ {
		a := &recordedCall{entry: entry{Member: m.Member, Caller: caller, Number: number}, careful: m.Careful, write: m.journal.write}
		a.Key, a.Cost = workloads[m.Workload].key(random, m.Member), 1+random.Int64N(3)
		if err := m.decide(a); err != nil {
			return err
		}
		if m.Think > 0 {
			time.Sleep(time.Duration(random.Int64N(int64(m.Think))))
		}
	}
	return nil
}

// done reports whether the member has had enough admissions, so that it does not slow down the others.
func (m *member) done() bool {
	return m.page.stopped() || m.Enough > 0 && m.counters.admitted.Load() >= m.Enough
}

// decide makes one decision and writes it to the journal.
func (m *member) decide(a *recordedCall) error {
	began := time.Now()
	a.Call = m.page.read()
	d, err := m.limiter.Allow(context.Background(), a)
	f, ok := outcomeOf(d, err)
	if !ok {
		return fmt.Errorf("neither ErrOutcomeUnknown nor ErrNotApplied: %w", err)
	}
	e := a.result(d, f, err, m.page.read())
	e.Took = time.Since(began)
	if err := m.journal.write(e); err != nil {
		return err
	}
	switch f {
	case admitted:
		m.counters.admitted.Add(1)
	case refused, unknown:
		m.counters.failed.Add(1)
	}
	return nil
}

func outcomeOf(d sluice.Decision, err error) (f outcome, ok bool) {
	switch {
	case errors.Is(err, storage.ErrOutcomeUnknown):
		return unknown, true
	case err != nil:
		return refused, errors.Is(err, storage.ErrNotApplied)
	case d.Allowed:
		return admitted, true
	}
	return denied, true
}
