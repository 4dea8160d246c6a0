package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var randomBatches = law("any batch is decided as in Go",
	"Random batches find, apply and store the same as the steps in Go. Requests are decided in order. A request takes all its units "+
		"or none. A shadow use never denies. A refund and a charge apply. A damaged state fails "+
		"only the requests with an enforced use of it.",
	func(s *subject) {
		const batches = 400
		m := &model{subject: s, random: rand.New(rand.NewPCG(1, 2)), now: s.Now().Round(0), records: map[string]storage.Record{}}
		for i := range batches {
			if m.random.IntN(10) == 0 {
				m.damage()
			}
			m.batch()
			if i%20 < 19 {
				continue
			}
			for i := range randomKeys {
				m.has(randomKey(i), m.get(randomKey(i)))
			}
		}
	})

// model holds the records that a store should have after the random batches. The Margin of the batches is so
// long that no record expires.
type model struct {
	*subject
	random  *rand.Rand
	now     time.Time
	records map[string]storage.Record // by key
}

// has requires that key has the record of the model.
func (m *model) has(key string, got storage.Record) {
	m.same(fmt.Sprintf("%q", key), []storage.Record{got}, m.records[key])
}

// batch runs a random batch and compares its result.
func (m *model) batch() {
	b := m.newBatch()
	m.run(b)
	for i, key := range b.Keys {
		m.has(key, b.Found[i])
	}
	if !b.Now.IsZero() && !b.At.Equal(b.Now) {
		m.fail("a batch at %v was decided at %v", b.Now, b.At)
	}
	want := *b
	want.Requests = slices.Clone(b.Requests)
	changes := decide(&want, b.Found, b.At)
	if !slices.Equal(appliedOf(b), appliedOf(&want)) {
		m.fail("the requests %s at %v have Applied %v, want %v; the records before were %v", showRequests(b), b.At, appliedOf(b), appliedOf(&want), b.Found)
	}
	for i, change := range changes {
		switch change.Verb {
		case driver.Delete:
			delete(m.records, b.Keys[i])
		case driver.Put:
			m.records[b.Keys[i]] = storage.Record{Version: b.Version, State: change.State}
		}
	}
}

// damage replaces the state of a key by one that no program can read.
func (m *model) damage() {
	key := randomKey(m.random.IntN(randomKeys))
	swap := writing(key, m.get(key).Version, "not a state", 0)
	m.swap(swap)
	m.records[key] = swap.New
}

const randomKeys = 6

func randomKey(i int) string { return key(fmt.Sprint("random ", i)) }

func (m *model) newBatch() *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Programs: randomPrograms, Margin: time.Hour}
	m.now = m.now.Add(time.Duration(m.random.Int64N(int64(20*time.Minute))) - time.Minute)
	if m.random.IntN(4) > 0 {
		b.Now = m.now
	}
	order := m.random.Perm(randomKeys)[:1+m.random.IntN(randomKeys)]
	for _, i := range order {
		b.Keys = append(b.Keys, randomKey(i))
	}
	switch m.random.IntN(3) { // a store may have a fast path for the first two kinds
	case 0: // one request with one use
		b.Keys = b.Keys[:1]
		b.Requests = []driver.Request{m.newRequest(b, order, 0)}
		use := &b.Requests[0].Uses[0]
		b.Programs, use.Program = b.Programs[use.Program:use.Program+1], 0
	case 1: // one request with one use for each key
		for _, i := range m.random.Perm(len(b.Keys)) {
			b.Requests = append(b.Requests, m.newRequest(b, order, i))
		}
	default:
		for range 1 + m.random.IntN(8) {
			keys := m.random.Perm(len(b.Keys))[:1+m.random.IntN(min(3, len(b.Keys)))]
			b.Requests = append(b.Requests, m.newRequest(b, order, keys...))
		}
		if m.random.IntN(2) == 0 { // the last request may restore the states that the first one changed
			refund := driver.Request{Times: 1, Uses: slices.Clone(b.Requests[0].Uses)}
			for i := range refund.Uses {
				refund.Uses[i].Op = driver.Refund
			}
			b.Requests = append(b.Requests, refund)
		}
	}
	return b
}

// newRequest returns a request on the keys with these indexes.
func (m *model) newRequest(b *driver.Batch, order []int, keys ...int) driver.Request {
	r := driver.Request{Times: 1}
	for _, i := range keys {
		r.Uses = append(r.Uses, m.newUse(b, order, i))
	}
	if len(r.Uses) == 1 && r.Uses[0].Op == driver.Allow && m.random.IntN(3) == 0 {
		if r.Times = 1 + m.random.IntN(5); m.random.IntN(8) == 0 {
			r.Times = 1001
		}
	}
	return r
}

// newUse mostly selects the program of the key. For other programs the state of the key is damaged.
func (m *model) newUse(b *driver.Batch, order []int, i int) driver.Use {
	use := driver.Use{Key: i, Program: order[i] % len(b.Programs), Cost: 1 + m.random.Int64N(4), Shadow: m.random.IntN(4) == 0}
	switch n := m.random.IntN(20); {
	case n < 2:
		if use.Op = driver.Refund; m.random.IntN(2) == 0 {
			use.Cost = 10 // the key is full, which deletes its record
		}
	case n < 4:
		use.Op = driver.Charge
	case n < 5:
		use.Program = m.random.IntN(len(b.Programs))
	}
	return use
}
