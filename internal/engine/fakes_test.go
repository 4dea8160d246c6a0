package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// fakeStore is a store in memory. It records its round trips, and can delay them or make them fail. It
// has no optional interfaces; the types below have them.
type fakeStore struct {
	mu      sync.Mutex
	records map[string]storage.Record
	swaps   []storage.Swap // of the last CompareAndSwap
	trips   []string       // the kind and the keys of each; | separates the batches of a round trip

	gate           chan struct{}             // if not nil, round trips wait: a value releases one, close releases all
	takes          time.Duration             // how long a round trip takes, without a gate
	ignoresContext bool                      // waiting round trips do not end with their context
	before         func(keys []string) error // is called before a batch; its error prevents the batch
	after          func(keys []string) error // is called after a batch; its error means that the reply is lost
	clock          func() time.Time          // of the server
}

func newFakeStore() *fakeStore {
	return &fakeStore{records: make(map[string]storage.Record), clock: time.Now}
}

var (
	errLost    = errors.New("connection reset")
	errRefused = fmt.Errorf("%w: connection refused", storage.ErrUnavailable)
	notSent    = storage.NotApplied(errRefused)
)

// always returns a function for before or after, which always returns err.
func always(err error) func([]string) error { return func([]string) error { return err } }

// onTrip returns a function for before or after, which returns err for the nth call, from 1.
func onTrip(n int, err error) func([]string) error {
	return func([]string) error {
		if n--; n == 0 {
			return err
		}
		return nil
	}
}

// forTime returns a function for before or after, which returns err until d has passed.
func forTime(d time.Duration, err error) func([]string) error {
	began := time.Now()
	return func([]string) error {
		if time.Since(began) < d {
			return err
		}
		return nil
	}
}

// begin records a round trip and waits until it is released.
func (f *fakeStore) begin(ctx context.Context, kind string, batches ...[]string) error {
	if err := ctx.Err(); err != nil {
		return storage.NotApplied(err)
	}
	var names []string
	for _, keys := range batches {
		names = append(names, strings.Join(keys, " "))
	}
	f.mu.Lock()
	f.trips = append(f.trips, kind+" "+strings.Join(names, "|"))
	gate, ignoresContext, takes := f.gate, f.ignoresContext, f.takes
	f.mu.Unlock()
	if gate == nil && takes == 0 {
		return nil
	}
	if gate == nil {
		gate = make(chan struct{})
		time.AfterFunc(takes, func() { close(gate) })
	}
	if ignoresContext {
		<-gate
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// apply applies one batch of a round trip.
func (f *fakeStore) apply(keys []string, do func()) error {
	if f.before != nil {
		if err := f.before(keys); err != nil {
			return err
		}
	}
	func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		do()
	}()
	if f.after != nil {
		return f.after(keys)
	}
	return nil
}

func (f *fakeStore) Load(ctx context.Context, keys ...string) (found []storage.Record, now time.Time, err error) {
	if err := f.begin(ctx, "load", keys); err != nil {
		return nil, now, err
	}
	err = f.apply(keys, func() {
		for _, key := range keys {
			found = append(found, f.records[key])
		}
		now = f.clock()
	})
	return found, now, err
}

func (f *fakeStore) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	var keys []string
	for _, s := range swaps {
		keys = append(keys, s.Key)
	}
	if err := f.begin(ctx, "swap", keys); err != nil {
		return nil, false, err
	}
	err = f.apply(keys, func() { f.swaps = swaps; current, swapped = f.swap(swaps) })
	if err != nil {
		return nil, false, err
	}
	return current, swapped, nil
}

func (f *fakeStore) swap(swaps []storage.Swap) (current []storage.Record, swapped bool) {
	swapped = true
	for _, s := range swaps {
		current = append(current, f.records[s.Key])
		swapped = swapped && f.records[s.Key].Version == s.Old
	}
	if !swapped {
		return current, false
	}
	for _, s := range swaps {
		f.set(s.Key, s.New)
	}
	return nil, true
}

func (f *fakeStore) set(key string, r storage.Record) {
	if f.records[key] = r; r.Version == 0 {
		delete(f.records, key)
	}
}

// put writes a state, like another process.
func (f *fakeStore) put(key, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(key, storage.Record{Version: storage.NewVersion(), State: []byte(state)})
}

// remove deletes a record, like another process.
func (f *fakeStore) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.records, key)
}

func (f *fakeStore) state(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.records[key].State)
}

func (f *fakeStore) tripsSoFar() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.trips...)
}

// lastKind returns the kind of the last round trip.
func (f *fakeStore) lastKind() string {
	trips := f.tripsSoFar()
	kind, _, _ := strings.Cut(trips[len(trips)-1], " ")
	return kind
}

// transactor also implements driver.Transactor.
type transactor struct{ *fakeStore }

func (f transactor) Transact(ctx context.Context, clock func() time.Time, updates ...*driver.Update) error {
	var keys []string
	for _, u := range updates {
		for i := range u.Items {
			keys = append(keys, u.Items[i].Key.String())
		}
	}
	if err := f.begin(ctx, "transact", keys); err != nil {
		return err
	}
	if clock == nil {
		clock = f.clock
	}
	return f.apply(keys, func() {
		records, now := maps.Clone(f.records), clock()
		defer func() { f.records = records }() // if a policy panics or exits, nothing is stored
		for _, u := range updates {
			f.update(now, u)
		}
		records = f.records
	})
}

func (f transactor) update(now time.Time, u *driver.Update) {
	var found [][]byte
	for i := range u.Items {
		item := &u.Items[i]
		item.Found, item.Next = f.records[item.Key.Key], driver.Change{}
		item.Found.State = bytes.Clone(item.Found.State)
		found = append(found, item.Found.State)
	}
	ok := u.Decide(now)
	for _, state := range found { // the memory of found may be used for something else now
		for i := range state {
			state[i] = '?'
		}
	}
	if !ok {
		return
	}
	for i := range u.Items {
		switch item := &u.Items[i]; item.Next.Verb {
		case driver.Put:
			f.set(item.Key.Key, storage.Record{Version: storage.NewVersion(), State: bytes.Clone(item.Next.State)})
		case driver.Delete:
			delete(f.records, item.Key.Key)
		}
	}
}

// server also implements driver.Server. It runs the programs of the policies below.
type server struct {
	*fakeStore
	declines int64               // declines costs of this size or larger; 0 means none
	lie      func(*driver.Batch) // changes the reply
}

func (server) Place(...string) (server, slot string, err error) { return "", "", nil }

func (f server) Runs(p *algo.Program) bool { return p.Name != "" }

func (f server) Run(ctx context.Context, batches ...*driver.Batch) { f.send(ctx, "run", batches) }

func (f server) send(ctx context.Context, kind string, batches []*driver.Batch) {
	var parts [][]string
	for _, b := range batches {
		parts = append(parts, b.Keys)
	}
	err := f.begin(ctx, kind, parts...)
	for _, b := range batches {
		if b.Err = err; err == nil {
			b.Err = f.apply(b.Keys, func() { f.run(b) })
		}
		if b.Err == nil && f.lie != nil {
			f.lie(b)
		}
	}
}

// run decides a batch; see driver.Batch.
func (f server) run(b *driver.Batch) {
	if b.At = b.Now; b.At.IsZero() {
		b.At = f.clock()
	}
	states := make(map[int]string)
	for i, key := range b.Keys {
		r := f.records[key]
		b.Found = append(b.Found, r)
		states[i] = string(r.State)
	}
	for i := range b.Requests {
		b.Requests[i].Applied = f.decide(b, &b.Requests[i], states)
	}
	for i, key := range b.Keys {
		if states[i] != string(b.Found[i].State) {
			if f.set(key, storage.Record{Version: b.Version, State: []byte(states[i])}); states[i] == "" {
				delete(f.records, key)
			}
		}
	}
}

func (f server) decide(b *driver.Batch, r *driver.Request, states map[int]string) (applied int) {
	for _, u := range r.Uses {
		if f.declines > 0 && u.Cost >= f.declines {
			return driver.Declined
		}
	}
	for range r.Times {
		once := f.once(b, r.Uses, states)
		if once < 0 {
			return once
		}
		applied += once
	}
	return applied
}

func (f server) once(b *driver.Batch, uses []driver.Use, states map[int]string) (applied int) {
	next := maps.Clone(states)
	for _, u := range uses {
		allowed, state, err := step(u.Program, u.Op, states[u.Key], b.At, u.Cost)
		switch {
		case err != nil && !u.Shadow:
			return driver.Damaged
		case err != nil:
		case allowed:
			next[u.Key] = state
			applied++
		case !u.Shadow:
			return 0
		}
	}
	maps.Copy(states, next)
	return applied
}

// withoutPrograms is a server that runs no programs.
type withoutPrograms struct{ server }

func (withoutPrograms) Runs(*algo.Program) bool { return false }

// sharded also implements Place of driver.Server. The first letter of a key is its server, the first two are
// its slot.
type sharded struct{ server }

var errTwoServers = storage.NotApplied(errors.New("keys of two servers"))

func (sharded) Place(keys ...string) (shard, slot string, err error) {
	for _, key := range keys {
		if key[0] != keys[0][0] {
			return "", "", errTwoServers
		}
	}
	return keys[0][:1], keys[0][:2], nil
}

// The policies of these tests have readable states:
//
//	counter N   at most N units; the state has an x for each used unit
//	spacing N   one unit in N nanoseconds; the state is the time of the last one
func counter(limit int64) *algo.Program { return &algo.Program{Name: "counter", Args: []int64{limit}} }

func spacing(pause time.Duration) *algo.Program {
	return &algo.Program{Name: "spacing", Args: []int64{int64(pause)}}
}

var errState = errors.New("the state cannot be read")

// step is the step of a policy. The fake server and the evaluator call it.
func step(p *algo.Program, op driver.Op, state string, now time.Time, cost int64) (allowed bool, next string, err error) {
	if state == "damaged" {
		return false, state, errState
	}
	if p.Name == "spacing" {
		return space(p, state, now)
	}
	used := int64(len(state))
	switch op {
	case driver.Refund:
		used = max(used-cost, 0)
	case driver.Charge:
		used += cost
	default:
		if used+cost > p.Args[0] {
			return false, state, nil
		}
		used += cost
	}
	return true, strings.Repeat("x", int(used)), nil
}

func space(p *algo.Program, state string, now time.Time) (allowed bool, next string, err error) {
	if state != "" && now.Sub(lastOf(state)) < time.Duration(p.Args[0]) {
		return false, state, nil
	}
	return true, string(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano()))), nil
}

func lastOf(state string) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64([]byte(state))))
}

// call is a request for one unit of each key, unless a test changes its uses.
type call struct {
	engine.Request
	programs []*algo.Program // that Evaluate runs
	allowed  bool
	retry    time.Duration // of the last use that a spacing policy denied
	states   []string      // of the last evaluation
	times    []time.Time   // of all evaluations
	before   func() error  // is called before each evaluation

	attempts int
	cached   bool
	err      error
	panicked any
	took     time.Duration
	returned bool
}

func newCall(program *algo.Program, keys ...string) *call {
	return newCallOf(driver.Allow, program, keys...)
}

func newCallOf(op driver.Op, program *algo.Program, keys ...string) *call {
	c := &call{}
	c.Evaluator = c
	for _, key := range keys {
		c.Items = append(c.Items, driver.Item{Key: driver.RuleKey{Key: key}})
		c.Uses, c.programs = append(c.Uses, driver.Use{Op: op, Cost: 1}), append(c.programs, program)
	}
	return c
}

// Evaluate implements engine.Evaluator.
func (c *call) Evaluate(now time.Time, items []driver.Item, _ bool) (applied int, err error) {
	c.times, c.states, c.allowed = append(c.times, now), nil, true
	if c.before != nil {
		if err := c.before(); err != nil {
			return 0, err
		}
	}
	for i, u := range c.Uses {
		state, change := string(items[i].Found.State), &items[i].Next
		c.states = append(c.states, state)
		if u.Op == driver.Peek {
			continue
		}
		if u.Op == driver.Reset {
			if items[i].Found.Version != 0 {
				change.Verb = driver.Delete
			}
			continue
		}
		allowed, next, err := step(c.programs[i], u.Op, state, now, u.Cost)
		switch {
		case err != nil && !u.Shadow:
			return 0, err
		case err != nil:
		case allowed:
			applied++
			if *change = (driver.Change{Verb: driver.Put, State: []byte(next), TTL: time.Hour, Priority: storage.UsedHalf}); next == "" {
				*change = driver.Change{Verb: driver.Delete}
			}
		case !u.Shadow:
			c.deny(c.programs[i], state, now)
		}
	}
	if !c.allowed {
		for i := range items {
			items[i].Next = driver.Change{}
		}
		return 0, nil
	}
	return applied, nil
}

func (c *call) deny(p *algo.Program, state string, now time.Time) {
	c.allowed = false
	if p.Name == "spacing" {
		c.retry = time.Duration(p.Args[0]) - now.Sub(lastOf(state))
	}
}

func (c *call) Denied() (time.Duration, bool) {
	if c.retry == 0 { // a wait does not help
		return math.MaxInt64, !c.allowed
	}
	return c.retry, !c.allowed
}
