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
	"Random batches find, apply and store the same as the steps in Go, at the time of the batch or else of the server. Requests are "+
		"decided in order. A request takes all its units or none. A shadow use never denies. A refund and a charge apply. A damaged "+
		"state fails only the requests with an enforced use of it.",
	func(s *subject) {
		const batches = 400
		m := &model{subject: s, random: rand.New(rand.NewPCG(1, 2)), now: s.Now().Round(0), records: map[string]storage.Record{}}
		for i := range batches {
			if m.random.IntN(10) == 0 {
				m.damage()
			}
			m.batch()
			for j := 0; i%20 == 0 && j < randomKeys; j++ {
				m.has(randomKey(j), m.get(randomKey(j)))
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
	const tolerance = time.Second // of the clocks of the test and of a server
	b := m.newBatch()
	earliest, latest := b.Now, b.Now
	if b.Now.IsZero() {
		earliest = m.Now().Add(-tolerance)
	}
	m.run(b)
	if b.Now.IsZero() {
		latest = m.Now().Add(tolerance)
	}
	if b.At.Before(earliest) || b.At.After(latest) {
		m.fail("a batch was decided at %v, want a time from %v to %v", b.At, earliest, latest)
	}
	for i, key := range b.Keys {
		m.has(key, b.Found[i])
	}
	want := *b
	want.Requests = slices.Clone(b.Requests)
	changes := decide(&want, b.Found, b.At)
	m.hasApplied(b, appliedOf(&want)...)
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
	version := m.replace(key, m.get(key).Version, "not a state")
	m.records[key] = storage.Record{Version: version, State: []byte("not a state")}
}

const randomKeys = 6

func randomKey(i int) string { return key(fmt.Sprint("random ", i)) }

func (m *model) newBatch() *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Margin: time.Hour}
	m.now = m.now.Add(time.Duration(m.random.Int64N(int64(20*time.Minute))) - time.Minute)
	if m.random.IntN(4) > 0 {
		b.Now = m.now
	}
	order := m.random.Perm(randomKeys)[:1+m.random.IntN(randomKeys)]
	for _, i := range order {
		b.Keys = append(b.Keys, randomKey(i))
	}
	for range 1 + m.random.IntN(8) {
		r := driver.Request{Times: 1}
		for _, i := range m.random.Perm(len(order))[:1+m.random.IntN(min(3, len(order)))] {
			r.Uses = append(r.Uses, m.newUse(i, order[i]))
		}
		if !slices.ContainsFunc(r.Uses, func(u driver.Use) bool { return u.Op != driver.Allow }) && m.random.IntN(3) == 0 {
			r.Times = []int{2, 3, 4, 1001}[m.random.IntN(4)]
		}
		b.Requests = append(b.Requests, r)
	}
	if m.random.IntN(2) == 0 { // the last request may restore the states that the first one changed
		refund := driver.Request{Times: 1, Uses: slices.Clone(b.Requests[0].Uses)}
		for i := range refund.Uses {
			refund.Uses[i].Op = driver.Refund
		}
		b.Requests = append(b.Requests, refund)
	}
	return b
}

// newUse mostly selects the program of the key. For other programs the state of the key is damaged.
func (m *model) newUse(index, key int) driver.Use {
	use := driver.Use{Key: index, Program: randomPrograms[key%len(randomPrograms)], Cost: 1 + m.random.Int64N(4), Shadow: m.random.IntN(4) == 0}
	switch m.random.IntN(20) {
	case 0:
		use.Op = driver.Refund
	case 1:
		use.Op, use.Cost = driver.Refund, 10 // the key is full, which deletes its record
	case 2, 3:
		use.Op = driver.Charge
	case 4:
		use.Program = randomPrograms[m.random.IntN(len(randomPrograms))]
	}
	return use
}
