package observe

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// DefaultDenied is the default size of [NewDenied].
const DefaultDenied = 100

// MaxDeniedKey is the maximum length of [DeniedKey].Key in bytes.
const MaxDeniedKey = 128

// countersPerKey is how many counters a Denied has for each key that it lists. More counters make the
// counts more exact.
const countersPerKey = 8

// Denied lists the keys that are denied most. It is safe for concurrent use.
//
// It counts one denial for each enforced rule that denied an Allow, Wait, Reserve or Renew, but none for a Wait behind others.
// After N denials, a Denied of size M lists every key with more than N/M denials, and usually the M keys with the most. It takes
// up to 3 KB for each key of its size.
//
// Keys can be personal data or secrets. Serve the list on a loopback listener or behind authentication.
type Denied struct {
	size  int
	clock func() time.Time
	seed  maphash.Seed

	mu       sync.Mutex
	since    time.Time
	total    uint64 // denials since then
	index    map[uint64]*counter
	counters []*counter
	counts   []uint64 // of the counters, in descending order
}

// counter is the counter of one key of a rule. A key without a counter takes over the lowest one, and its count as the error
// bound. So the counts add up to the number of denials, and no error bound is higher than that number divided by the number
// of counters. The algorithm is Space-Saving, by Metwally, Agrawal and El Abbadi (2005).
type counter struct {
	item       uint64 // a hash of the rule and the whole key
	errorBound uint64 // of the count
	rank       int    // the index in counters and counts
	rule       string
	key        []byte // from cutKey
}

// DeniedKey is a key that a rule denied at least Count-ErrorBound times and at most Count times.
type DeniedKey struct {
	Rule string `json:"rule"`
	// Key may have any bytes. Above MaxDeniedKey bytes it is cut, and ends with "~" and a hash, which differs from one Denied to
	// another.
	Key        string `json:"key"`
	Count      uint64 `json:"count"`
	ErrorBound uint64 `json:"error_bound"`
}

// NewDenied returns a Denied that lists up to size keys. 0 or less means DefaultDenied.
func NewDenied(size int) *Denied {
	if size <= 0 {
		size = DefaultDenied
	}
	d := &Denied{size: size, clock: time.Now, seed: maphash.MakeSeed()}
	d.Reset()
	return d
}

// Observe counts the denials of a decision, of any number of limiters.
func (d *Denied) Observe(_ context.Context, e sluice.Event) {
	if e.Op != sluice.OpAllow || e.Decision.Allowed {
		return
	}
	for i := range e.Decision.Results {
		if r := &e.Decision.Results[i]; !r.Allowed && !r.Shadow {
			d.add(r.Rule, r.Key)
		}
	}
}

func (d *Denied) add(rule, key string) {
	// Nobody outside the process can predict the hash, so nobody can make keys with equal hashes.
	item := maphash.Comparable(d.seed, [2]string{rule, key})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total++
	c := d.index[item]
	if c == nil {
		c = d.takeCounter()
		c.item, c.rule, c.key = item, rule, cutKey(c.key[:0], key, item)
		d.index[item] = c
	}
	// The counter moves in front of those with the same count, so that its count can grow there.
	count := d.counts[c.rank]
	rank := sort.Search(c.rank, func(i int) bool { return d.counts[i] == count })
	first := d.counters[rank]
	d.counters[rank], d.counters[c.rank] = c, first
	c.rank, first.rank = rank, c.rank
	d.counts[rank]++
}

// takeCounter returns a new counter, or the lowest if there are enough.
func (d *Denied) takeCounter() *counter {
	last := len(d.counters) - 1
	if len(d.counters)/countersPerKey < d.size {
		last++
		d.counters, d.counts = append(d.counters, &counter{rank: last}), append(d.counts, 0)
	} else {
		delete(d.index, d.counters[last].item)
		d.counters[last].errorBound = d.counts[last]
	}
	return d.counters[last]
}

// cutKey appends the key, cut to MaxDeniedKey bytes. It copies the key, because a key can be
// a part of a large string, such as a request's header.
func cutKey(dst []byte, key string, item uint64) []byte {
	const hash = len("~0123456789abcdef")
	if len(key) <= MaxDeniedKey {
		return append(dst, key...)
	}
	return fmt.Appendf(append(dst, key[:MaxDeniedKey-hash]...), "~%016x", item)
}

// Reset starts to count again from 0.
func (d *Denied) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.total = d.clock().UTC(), 0
	d.index, d.counters, d.counts = make(map[uint64]*counter), nil, nil
}

// Top returns the keys with the highest Count, highest first.
func (d *Denied) Top() []DeniedKey { return d.report().Keys }

type report struct {
	Since   time.Time   `json:"since"`
	Denials uint64      `json:"denials"`
	Missing uint64      `json:"missing_at_most"` // the most denials that a key that is not listed can have
	Keys    []DeniedKey `json:"keys"`
}

func (d *Denied) report() report {
	d.mu.Lock()
	r := report{Since: d.since, Denials: d.total, Keys: []DeniedKey{}}
	for i, c := range d.counters {
		r.Keys = append(r.Keys, DeniedKey{Rule: c.rule, Key: string(c.key), Count: d.counts[i], ErrorBound: c.errorBound})
	}
	d.mu.Unlock()
	slices.SortFunc(r.Keys, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ErrorBound, b.ErrorBound),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	if len(r.Keys) > d.size { // keys without a counter have no more than the lowest count
		r.Missing = r.Keys[d.size].Count
		r.Keys = slices.Clip(r.Keys[:d.size])
	}
	return r
}
