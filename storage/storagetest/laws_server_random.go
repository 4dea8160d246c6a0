package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

var randomBatches = Law{
	Name: "any batch is decided as in Go",
	Sentence: "Random batches find, apply and store the same as the steps in Go. Requests are decided in order. A request takes all its units or none. " +
		"A shadow use never denies. A peek changes nothing, a reset deletes, a refund and a charge apply. " +
		"A damaged state fails only the requests with an enforced use of it. " +
		"Requests on records that already have the version of the batch are Stored.",
	check: func(s *subject) {
		const batches = 500
		m := &model{subject: s, random: rand.New(rand.NewPCG(1, 2)), now: s.Now().Round(0), records: map[string]modelRecord{}}
		for i := range batches {
			if m.random.IntN(10) == 0 {
				m.damage()
			}
			m.batch()
			if i%20 == 19 {
				m.compare()
			}
		}
	},
}

// model holds the records that a store should have after the random batches.
type model struct {
	*subject
	random  *rand.Rand
	now     time.Time
	last    *driver.Batch
	records map[string]modelRecord // by key
}

type modelRecord struct {
	storage.Record
	expires time.Time // the earliest real time at which the store may remove it; zero: never
}

// find returns the record of key. If isAbsent, and the record may have expired, find deletes it.
func (m *model) find(key string, isAbsent bool) storage.Record {
	k := m.records[key]
	if isAbsent && !k.expires.IsZero() && !time.Now().Before(k.expires) {
		delete(m.records, key)
		return storage.Record{}
	}
	return k.Record
}

// batch runs a random batch and compares its result.
func (m *model) batch() {
	b := m.newBatch()
	want := *b
	want.Requests = slices.Clone(b.Requests)
	started := time.Now()
	m.run(b)
	found := make([]storage.Record, len(b.Keys))
	for i, key := range b.Keys {
		found[i] = m.find(key, absent(b.Found[i]))
		if found[i].Version != b.Found[i].Version || string(found[i].State) != string(b.Found[i].State) {
			m.fail("%q had %s, but Run found %s", key, show(found[i]), show(b.Found[i]))
		}
	}
	if !b.Now.IsZero() && !b.At.Equal(b.Now) {
		m.fail("a batch at %v was decided at %v", b.Now, b.At)
	}
	changes := Decide(&want, found, b.At, policyOf)
	if !slices.Equal(appliedOf(b), appliedOf(&want)) {
		m.fail("the requests %s at %v have Applied %v, want %v; the records before were %v", showRequests(b), b.At, appliedOf(b), appliedOf(&want), found)
	}
	for i, change := range changes {
		switch change.Verb {
		case driver.Delete:
			delete(m.records, b.Keys[i])
		case driver.Put:
			k := modelRecord{Record: storage.Record{Version: b.Version, State: change.State}}
			if change.TTL > 0 {
				k.expires = started.Add(change.TTL)
			}
			m.records[b.Keys[i]] = k
		}
	}
	m.last = b
}

// damage replaces the state of a key by one that no program can read.
func (m *model) damage() {
	key := randomKey(m.random.IntN(randomKeys))
	swap := writing(key, m.get(key).Version, "not a state", 0)
	m.swap(swap)
	m.records[key] = modelRecord{Record: swap.New}
}

// compare compares the stored records.
func (m *model) compare() {
	for i := range randomKeys {
		key := randomKey(i)
		got := m.get(key)
		if want := m.find(key, absent(got)); got.Version != want.Version || string(got.State) != string(want.State) {
			m.fail("%q has %s, want %s", key, show(got), show(want))
		}
	}
}

const randomKeys = 6

// For each of randomPolicies, the states of the other algorithms are damaged.
var randomPolicies = []*portable{tenAnHour, fourTokens, fiveAWindow, sixMoving}

func randomKey(i int) string { return key(fmt.Sprint("random ", i)) }

func (m *model) newBatch() *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion()}
	if m.last != nil && m.random.IntN(8) == 0 {
		b.Version = m.last.Version
		if m.random.IntN(2) == 0 { // the same batch, as after a lost reply
			b.Now, b.Keys, b.Programs, b.Requests = m.last.Now, m.last.Keys, m.last.Programs, slices.Clone(m.last.Requests)
			for i := range b.Requests {
				b.Requests[i].Applied = 0
			}
			return b
		}
	}
	m.now = m.now.Add(time.Duration(m.random.Int64N(int64(20*time.Minute))) - time.Minute)
	if m.random.IntN(4) > 0 {
		b.Now = m.now
	}
	for _, p := range randomPolicies {
		b.Programs = append(b.Programs, &p.program)
	}
	order := m.random.Perm(randomKeys)[:1+m.random.IntN(randomKeys)]
	for _, i := range order {
		b.Keys = append(b.Keys, randomKey(i))
	}
	if m.random.IntN(3) == 0 { // the smallest batch, for which a store may have a fast path
		b.Keys = b.Keys[:1]
		use := m.newUse(b, order, 0)
		b.Programs, use.Program = b.Programs[use.Program:use.Program+1], 0
		if (use.Op == driver.Peek || use.Op == driver.Reset) && m.random.IntN(2) == 0 {
			b.Programs = nil // they need no program
		}
		b.Requests = []driver.Request{{Times: m.times(use), Uses: []driver.Use{use}}}
		return b
	}
	for range 1 + m.random.IntN(8) {
		b.Requests = append(b.Requests, m.newRequest(b, order))
	}
	return b
}

func (m *model) newRequest(b *driver.Batch, order []int) driver.Request {
	r := driver.Request{Times: 1}
	for _, i := range m.random.Perm(len(b.Keys))[:1+m.random.IntN(min(3, len(b.Keys)))] {
		r.Uses = append(r.Uses, m.newUse(b, order, i))
	}
	if len(r.Uses) == 1 {
		r.Times = m.times(r.Uses[0])
	}
	return r
}

func (m *model) times(use driver.Use) int {
	switch {
	case use.Op != driver.Allow || m.random.IntN(3) > 0:
		return 1
	case m.random.IntN(8) == 0:
		return 1001
	}
	return 1 + m.random.IntN(5)
}

// newUse mostly selects the program of the key. For other programs the state of the key is damaged.
func (m *model) newUse(b *driver.Batch, order []int, i int) driver.Use {
	use := driver.Use{Key: i, Program: order[i] % len(b.Programs), Cost: 1 + m.random.Int64N(4), Shadow: m.random.IntN(4) == 0}
	switch n := m.random.IntN(20); {
	case n < 2:
		use.Op, use.Cost = driver.Refund, 1+m.random.Int64N(12) // often up to full, which deletes the record
	case n < 4:
		use.Op = driver.Charge
	case n < 5:
		use.Op = driver.Peek
	case n < 7:
		use.Op = driver.Reset
	case n < 8:
		use.Program = m.random.IntN(len(b.Programs))
	}
	return use
}
