package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

// All callers share the held units. Each caller has its own rate, which is practically not refilled in a test.
const (
	heldCount = 6
	heldTTL   = time.Second
	heldSpec  = "inflight 6 ttl=1s slots=10"
	heldMost  = heldTTL + heldTTL/10 // how long a unit is held at most
	rateBurst = 100000
	rateSpec  = "gcra 1/h burst=100000"
)

// use is a call to the limiter: the units to hold, and the cost under the rate of a caller.
type use struct {
	Units, Rate int64
	RateKey     string
}

func heldLimiter(namespace string, store storage.Store) (*sluice.Limiter[use], error) {
	return sluice.Options[use]{Namespace: namespace, Timeout: longTimeout}.New(store,
		sluice.Rule[use]{Name: "held", Key: func(use) string { return "" }, Spec: heldSpec, Cost: func(u use) int64 { return u.Units }},
		sluice.Rule[use]{Name: "rate", Key: func(u use) string { return u.RateKey }, Spec: rateSpec, Cost: func(u use) int64 { return u.Rate }})
}

// heldOp is an operation on held units.
type heldOp int

const (
	take heldOp = iota
	renew
	release
)

// heldEntry is an operation in a journal. It is written before the call, and again after it.
type heldEntry struct {
	Member, Caller, Number int // the caller, and the number of its reservation
	Use                    use
	Op                     heldOp
	Call, Return           int64 // by the clock of the machine, in ns since 1970; Return is 0 before the call has returned
	Done                   bool  // the units are taken or held for another TTL

	// Of a take:
	Cached   bool
	Used     int64 // the units that were held before it, by its decision
	RateLeft int64 // what remains under the rate
}

// holder takes, renews and releases units.
type holder struct {
	task
	page    sharedMemory
	journal *journal
	limiter *sluice.Limiter[use]
}

func (t task) newHolder(store storage.Store, shared sharedMemory, j *journal) (*holder, error) {
	limiter, err := heldLimiter(t.Namespace, store)
	return &holder{t, shared, j, limiter}, err
}

// call makes reservations until the run is stopped. The first reservation of the first caller uses up its
// rate, so all others of this caller are denied.
func (h *holder) call(caller int) error {
	random := rand.New(rand.NewPCG(uint64(h.Member), uint64(caller)))
	pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	for number := 0; !h.page.stopped(); number++ {
		e := h.newEntry(caller, number, 1+random.Int64N(2))
		if caller == 0 {
			e.Use.Rate = rateBurst
		}
		r, err := h.take(e)
		for range random.IntN(5) { // up to twice the TTL in total
			if r != nil && err == nil {
				pause(heldTTL * 2 / 5)
				r, err = h.renew(r, e)
			}
		}
		if r != nil && err == nil {
			pause(heldTTL * 2 / 5)
			err = h.record(e, release, func() error { return r.Release(context.Background()) })
		}
		if err != nil {
			return err
		}
		pause(20 * time.Millisecond)
	}
	return nil
}

func (h *holder) newEntry(caller, number int, units int64) *heldEntry {
	return &heldEntry{Member: h.Member, Caller: caller, Number: number, Use: use{units, 1, fmt.Sprint(h.Member, " ", caller)}}
}

// record writes an operation to the journal before and after its call.
func (h *holder) record(e *heldEntry, op heldOp, call func() error) error {
	e.Op, e.Call, e.Return, e.Done = op, time.Now().UnixNano(), 0, false
	if err := h.journal.write(e); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	e.Return = time.Now().UnixNano()
	return h.journal.write(e)
}

// take reserves units. The reservation is nil if they are denied.
func (h *holder) take(e *heldEntry) (r *sluice.Reservation[use], err error) {
	err = h.record(e, take, func() error {
		var d sluice.Decision
		if r, d, err = h.limiter.Reserve(context.Background(), e.Use, 1); err != nil {
			return err
		}
		held, rate := d.Results[0], d.Results[1]
		e.Done, e.Cached, e.Used, e.RateLeft = d.Allowed, d.Cached, heldCount-held.Remaining-held.Paid, rate.Remaining
		return nil
	})
	return r, err
}

// renew returns nil if the units are lost.
func (h *holder) renew(r *sluice.Reservation[use], e *heldEntry) (*sluice.Reservation[use], error) {
	err := h.record(e, renew, func() error {
		switch err := r.Renew(context.Background()); {
		case errors.Is(err, sluice.ErrHoldLost):
			r = nil
		case err != nil:
			return err
		}
		e.Done = r != nil
		return nil
	})
	return r, err
}

// hold is the units of a reservation.
type hold struct {
	reservation
	units    int64
	sure     []interval // they are held
	possible interval   // they can be held

	held     *heldEntry // the last take or renewal that has taken or renewed them
	returned int64      // when the last take or renewal has returned
	unsure   bool       // a take or renewal has not returned
	released *heldEntry // also before the call has returned
}

// surely reports whether the units are held at all of the times.
func (h *hold) surely(times ...int64) bool {
	return slices.ContainsFunc(h.sure, func(i interval) bool { return i.contains(slices.Min(times)) && i.contains(slices.Max(times)) })
}

type reservation struct{ member, caller, number int }

func (r reservation) String() string {
	return fmt.Sprintf("member %d caller %d reservation %d", r.member, r.caller, r.number)
}

// interval contains from, and not to.
type interval struct{ from, to int64 }

func (i interval) contains(at int64) bool { return i.from <= at && at < i.to }

// until returns until when units are held at least.
func (e *heldEntry) until() int64 { return e.Call/1000*1000 + int64(heldTTL) } // the server counts in microseconds

// heldVerifier compares the decisions of a fleet with the units that its processes hold by their journals.
type heldVerifier struct {
	killed map[int]int64 // a time when the member was dead
	holds  map[reservation]*hold
	takes  []*heldEntry // that have returned
	faults []string
}

func (v *heldVerifier) fault(format string, args ...any) {
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, fmt.Sprintf(format, args...))
	}
}

// add adds an entry of a journal.
func (v *heldVerifier) add(e *heldEntry) {
	id := reservation{e.Member, e.Caller, e.Number}
	h := v.holds[id]
	if h == nil {
		h = &hold{reservation: id, units: e.Use.Units, possible: interval{from: e.Call}}
		v.holds[id] = h
	}
	if e.Return > 0 && e.Op == take {
		v.takes = append(v.takes, e)
	}
	switch {
	case e.Op == release:
		h.released = e
		return
	case e.Return == 0:
		h.unsure = true
		return
	case e.Done:
		h.hold(e)
	case e.Op == take:
		delete(v.holds, id)
	case e.Return < h.held.Call+int64(heldTTL):
		v.fault("%v: the units are lost before their TTL", id)
	}
	h.unsure, h.returned = false, e.Return
}

// hold adds a take or a renewal. A renewal whose reply came late may have taken the units again after they had returned.
func (h *hold) hold(e *heldEntry) {
	switch last := len(h.sure) - 1; {
	case last < 0:
		h.sure = []interval{{from: e.Return}}
	case e.Return >= h.held.until():
		h.sure[last].to = h.held.until()
		h.sure = append(h.sure, interval{from: e.Return})
	}
	h.held = e
}

// limit sets until when the units of a hold are and can be held. A release after the TTL does nothing. The server may have renewed
// the units also if the reply came after their TTL, and they are lost.
func (v *heldVerifier) limit(h *hold) {
	if h.possible.to = math.MaxInt64; !h.unsure {
		h.possible.to = h.returned + int64(heldMost)
	} else if killed := v.killed[h.member]; killed > 0 {
		h.possible.to = killed + int64(slack+heldMost) // the server may have read the last request late
	}
	if h.held == nil {
		return
	}
	last := &h.sure[len(h.sure)-1]
	last.to = h.held.until()
	if e := h.released; e != nil {
		if e.Return > 0 && e.Return < last.to {
			h.possible.to = e.Return
		}
		last.to = min(last.to, e.Call)
	}
}

// sum returns the units of the holds that are included.
func (v *heldVerifier) sum(includes func(h *hold) bool) (units int64) {
	for _, h := range v.holds {
		if includes(h) {
			units += h.units
		}
	}
	return units
}

// at returns the units that are held at a time.
func (v *heldVerifier) at(at int64) int64 {
	return v.sum(func(h *hold) bool { return h.surely(at) })
}

// of returns the units that a member holds at a time.
func (v *heldVerifier) of(member int, at int64) int64 {
	return v.sum(func(h *hold) bool { return h.member == member && h.surely(at) })
}

// took returns how many takes were allowed since a time.
func (v *heldVerifier) took(since int64) (n int) {
	for _, e := range v.takes {
		if e.Done && e.Call > since {
			n++
		}
	}
	return n
}

// recovers reports whether all units are held at any time after those of the killed members have returned.
func (v *heldVerifier) recovers() bool {
	returned := int64(0)
	for _, h := range v.holds {
		if v.killed[h.member] > 0 {
			returned = max(returned, h.possible.to)
		}
	}
	for _, e := range v.takes {
		if e.Done && e.Return >= returned && v.at(e.Return) == heldCount {
			return true
		}
	}
	return false
}

// verify checks these laws:
//
//   - No more than Count units are held at any time.
//   - No decision counts fewer units than are held, or units that cannot be held any more. So no denial is wrong.
//   - Each reservation has charged the rate, and a denied one has not.
func (v *heldVerifier) verify() []string {
	spent := map[string]int64{} // the entries of a caller are in the order of its calls
	for _, e := range v.takes {
		id := reservation{e.Member, e.Caller, e.Number}
		if e.Done {
			spent[e.Use.RateKey] += e.Use.Rate
			if all := v.at(e.Return); all > heldCount {
				v.fault("%v: %d units are held, more than %d", id, all, heldCount)
			}
		}
		if left := rateBurst - spent[e.Use.RateKey]; e.RateLeft != left {
			v.fault("%v: %d are left under the rate, but %d were not spent", id, e.RateLeft, left)
		}
		if e.Cached {
			continue
		}
		least := v.sum(func(h *hold) bool { return h.reservation != id && h.surely(e.Call, e.Return) })
		most := v.sum(func(h *hold) bool {
			return h.reservation != id && h.possible.from <= e.Return && e.Call < h.possible.to
		})
		if e.Used < least || e.Used > most {
			v.fault("%v: the decision counts %d units, but from %d to %d are held", id, e.Used, least, most)
		}
	}
	return v.faults
}

// heldFleet is a fleet whose processes hold units.
type heldFleet struct {
	*fleet
	killed map[int]int64
}

func newHeldFleet(t *testing.T, address string) *heldFleet {
	f := &heldFleet{newFleet(t, address, 0, longTimeout), map[int]int64{}}
	f.task.Holds, f.task.Callers = true, 4
	return f
}

// read reads all journals. Their members may still be at work.
func (f *heldFleet) read() *heldVerifier {
	f.t.Helper()
	v := &heldVerifier{killed: f.killed, holds: map[reservation]*hold{}}
	for _, e := range readJournals[heldEntry](f.fleet) {
		v.add(e)
	}
	for _, h := range v.holds {
		v.limit(h)
	}
	return v
}

// eventually waits until the journals meet a condition.
func (f *heldFleet) eventually(what string, condition func(v *heldVerifier) bool) {
	f.t.Helper()
	for deadline := time.Now().Add(longTimeout); !condition(f.read()); time.Sleep(20 * time.Millisecond) {
		require.True(f.t, time.Now().Before(deadline), what)
	}
}

// kill kills a member. It returns how many units the member held at that time.
func (f *heldFleet) kill(member int) int64 {
	f.t.Helper()
	f.members[member].kill()
	f.killed[member] = time.Now().UnixNano()
	return f.read().of(member, f.killed[member])
}

// Processes take, renew and release units. If a process is killed with its units, the others get all units as soon as these have
// returned by their TTL. If all processes are killed, all units return. A second rule only charges for units that were taken.
func TestUnitsOfKilledProcessesReturn(t *testing.T) {
	for name, address := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newHeldFleet(t, address(t))
			f.start(4)
			for held := int64(0); held == 0; {
				a, b := len(f.killed), len(f.killed)+1
				f.eventually("two members hold units", func(v *heldVerifier) bool {
					now := time.Now().UnixNano()
					return v.of(a, now) > 0 && v.of(b, now) > 0
				})
				held = f.kill(a) + f.kill(b)
				f.start(2)
				f.eventually("the others hold all units", (*heldVerifier).recovers)
			}
			for member := len(f.killed); member < len(f.members); member++ {
				f.kill(member)
			}
			f.takeAll()
			for _, fault := range f.read().verify() {
				t.Error(fault)
			}
		})
	}
}

// Processes or their server are stopped for about a TTL, again and again.
func TestPausesNeverMiscountUnits(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (string, *servers.Process){
		"redis": func(t *testing.T) (string, *servers.Process) {
			server := servers.Redis(t)
			return redisAt(server), &server.Process
		},
		"postgres": func(t *testing.T) (string, *servers.Process) {
			server := servers.Postgres(t)
			return server.DSN(), &server.Process
		},
	} {
		for _, paused := range []string{"processes", "server"} {
			t.Run(name+", "+paused, func(t *testing.T) {
				t.Parallel()
				address, server := start(t)
				f := newHeldFleet(t, address)
				f.start(4)
				for range 3 {
					began := time.Now().UnixNano()
					f.eventually("units are taken", func(v *heldVerifier) bool { return v.took(began) > 5 })
					pause, resume := server.Pause, server.Resume
					if paused == "processes" {
						pause, resume = func() { f.signal(syscall.SIGSTOP) }, func() { f.signal(syscall.SIGCONT) }
					}
					pause()
					time.Sleep(heldTTL/2 + rand.N(heldTTL))
					resume()
				}
				for member := range f.members {
					f.kill(member)
				}
				for _, fault := range f.read().verify() {
					t.Error(fault)
				}
			})
		}
	}
}

// signal sends a signal to all members.
func (f *heldFleet) signal(s syscall.Signal) {
	for _, m := range f.members {
		require.NoError(f.t, m.cmd.Process.Signal(s))
	}
}

// takeAll takes all units as one more member, as soon as they have returned.
func (f *heldFleet) takeAll() {
	f.t.Helper()
	own := f.task
	own.Member = len(f.members)
	j, err := newJournal(f.journal(own.Member))
	require.NoError(f.t, err)
	defer j.file.Close()
	h, err := own.newHolder(f.store, f.page, j)
	require.NoError(f.t, err)
	for number, taken := 0, false; !taken; number++ {
		r, err := h.take(h.newEntry(0, number, heldCount))
		require.NoError(f.t, err)
		require.Less(f.t, number, 5000)
		taken = r != nil
		time.Sleep(10 * time.Millisecond)
	}
}

// Units are given back although they are held, and a unit is held that is in no journal.
func TestVerifierFindsFaultsOfHeldUnits(t *testing.T) {
	for found, inject := range map[string]func(ctx context.Context, l *sluice.Limiter[use]) error{
		"units are held, more than 6": func(ctx context.Context, l *sluice.Limiter[use]) error { return l.ResetRule(ctx, "held", use{}) },
		"the decision counts": func(ctx context.Context, l *sluice.Limiter[use]) error {
			_, err := l.Charge(ctx, use{Units: 1}, 1)
			return err
		},
	} {
		t.Run(found, func(t *testing.T) {
			f, store, done := newHeldFleet(t, ""), new(memory.Store), make(chan error, 1)
			f.task.Callers = 8
			own := f.task
			own.Journal = f.journal(0)
			limiter, err := heldLimiter(own.Namespace, store)
			require.NoError(t, err)
			go func() { done <- own.work(store) }()
			f.eventually("all units are held", func(v *heldVerifier) bool { return v.at(time.Now().UnixNano()) == heldCount })
			require.Empty(t, f.read().verify())
			require.NoError(t, inject(t.Context(), limiter))
			f.eventually(found, func(v *heldVerifier) bool { return strings.Contains(strings.Join(v.verify(), "\n"), found) })
			f.page.stop()
			require.NoError(t, <-done)
		})
	}
}
