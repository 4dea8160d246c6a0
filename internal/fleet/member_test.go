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

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
)

// A task is what one member of a fleet is to do. It travels to another process
// as JSON in the environment.
type task struct {
	Place     string // of the store; see openPlace
	Namespace string
	Traffic   int // index of traffics
	Member    int
	Callers   int
	Timeout   time.Duration
	Page      string // files
	Journal   string
	Enough    int64         // admissions, after which the member stops; 0: it goes on
	Think     time.Duration // between two calls of a caller, at most
	Careful   bool          // write down every decision before it is committed too
	Skew      time.Duration // of the member's clock, ahead of the one that all share
}

const taskVariable = "SLUICE_FLEET_TASK"

// serve is the life of a member that is a process: it says when it is ready,
// waits for a line, and works until it is told to stop or nobody is there to tell
// it.
func serve(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	store, release, err := openPlace(t.Place)
	if err != nil {
		return err
	}
	defer release()
	fmt.Println("ready")
	orders := bufio.NewReader(os.Stdin)
	if _, err := orders.ReadString('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, orders)
		os.Exit(3) // the test is gone
	}()
	return t.work(store)
}

// work lets the callers ask until the page says stop.
func (t task) work(store storage.Store) error {
	shared, err := openPage(t.Page)
	if err != nil {
		return err
	}
	journal, err := newJournal(t.Journal)
	if err != nil {
		return err
	}
	defer journal.file.Close()
	limiter, err := traffics[t.Traffic].limiter(compose.Options[*asked]{
		Namespace: t.Namespace, Clock: t.clock(shared), Timeout: t.Timeout,
	}, store)
	if err != nil {
		return err
	}
	m := &member{task: t, page: shared, desk: shared.desk(t.Member), journal: journal, limiter: limiter}
	errs := make([]error, t.Callers)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { errs[i] = m.call(i) })
	}
	callers.Wait()
	return errors.Join(errs...)
}

// clock is the clock of the member.
func (t task) clock(shared page) func() time.Time {
	return func() time.Time { return shared.now().Add(t.Skew) }
}

// A member is one process of the fleet at work.
type member struct {
	task
	page    page
	desk    desk
	journal *journal
	limiter *compose.Limiter[*asked]
}

func (m *member) call(caller int) error {
	random := rand.New(rand.NewPCG(uint64(m.Member), uint64(caller)))
	for number := 0; !m.done(); number++ {
		a := &asked{entry: entry{Member: m.Member, Caller: caller, Number: number}, careful: m.Careful, tell: m.journal.write}
		a.Key, a.Cost = traffics[m.Traffic].key(random, m.Member), 1+random.Int64N(3)
		if err := m.ask(a); err != nil {
			return err
		}
		if m.Think > 0 {
			time.Sleep(time.Duration(random.Int64N(int64(m.Think))))
		}
	}
	return nil
}

// done reports whether the member has done its share, so that it is not in the
// way of those who are slower.
func (m *member) done() bool {
	return m.page.stopped() || m.Enough > 0 && m.desk.admitted.Load() >= m.Enough
}

// ask asks for one decision and writes down what became of it.
func (m *member) ask(a *asked) error {
	began := time.Now()
	a.Call = m.page.read()
	d, err := m.limiter.Allow(context.Background(), a)
	f, ok := fateOf(d, err)
	if !ok {
		return fmt.Errorf("neither paid nor not: %w", err)
	}
	e := a.answered(d, f, err, m.page.read())
	e.Took = time.Since(began)
	if err := m.journal.write(e); err != nil {
		return err
	}
	m.count(f)
	return nil
}

func fateOf(d compose.Decision, err error) (f fate, ok bool) {
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

func (m *member) count(f fate) {
	switch f {
	case admitted:
		m.desk.admitted.Add(1)
	case denied:
		m.desk.denied.Add(1)
	default:
		m.desk.failed.Add(1)
	}
}
