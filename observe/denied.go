package observe

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/compose"
)

// DefaultDenied is how many keys a [Denied] tells when it is made for 0 or less.
const DefaultDenied = 100

// MaxDeniedKey is how many bytes a [DeniedKey] has for its key at most.
const MaxDeniedKey = 128

// shards is how many locks a Denied has.
const shards = 8

// Denied finds the keys that are denied most, in bounded memory, however many are
// denied. Make it with [NewDenied]. It is safe for concurrent use.
//
// It counts denials of calls by rules that are enforced: no looks, and nothing that
// shadow rules say. It counts them since it was made or last reset: [Denied.Since].
//
// Of N denials and a size of M it lists every key that was denied more than N/M
// times, in the worst case, and usually the greatest M. No denial is skipped, but
// counts are estimates: see [DeniedKey]. The algorithm is Space-Saving, by Metwally,
// Agrawal and El Abbadi (2005). Keys are parted over 8 locks, with M counters each,
// and a denial takes one of the locks. So it holds up to 8*M keys, each of up to
// MaxDeniedKey bytes and some 250 more: 300 kB at most for 100 keys.
//
// Keys are what rules make of requests: addresses, accounts, sessions, tokens. They
// are personal data, and sometimes secrets. Show them on a loopback listener, or
// behind authentication, and never to the public.
type Denied struct {
	size        int
	clock       func() time.Time
	keys, rules maphash.Seed
	shards      [shards]shard

	mu    sync.Mutex
	since time.Time
}

// DeniedKey is a key that a rule denied. It was denied at most Count times, and at
// least Count-Error times; where Error is 0, Count is exact.
type DeniedKey struct {
	Rule string
	// Key is as the rule found it, any bytes. Of a key of more than MaxDeniedKey
	// bytes it is the beginning, "~" and a hash by which this Denied tells it from
	// others that begin alike.
	Key   string
	Count uint64
	Error uint64
}

// shard is the summary of the keys that fall to it. No key falls to two.
type shard struct {
	mu sync.Mutex
	*summary
	_ [64]byte // the locks are not to share a cache line
}

// NewDenied makes a list of size keys; 0 or less means DefaultDenied.
func NewDenied(size int) *Denied {
	if size <= 0 {
		size = DefaultDenied
	}
	d := &Denied{size: size, clock: time.Now, keys: maphash.MakeSeed(), rules: maphash.MakeSeed()}
	d.Reset()
	return d
}

// Observe is an observer of any number of limiters.
func (d *Denied) Observe(e compose.Event) {
	if e.Op != compose.OpAllow || e.Decision.Allowed {
		return
	}
	for i := range e.Decision.Results {
		if r := &e.Decision.Results[i]; !r.Allowed && !r.Shadow {
			d.add(r.Rule, r.Key)
		}
	}
}

// hash stands for a rule's key. It has 64 bits that nobody outside the process can
// predict, so keys that share one are as good as impossible.
func (d *Denied) hash(rule, key string) uint64 {
	return maphash.String(d.keys, key) ^ maphash.String(d.rules, rule)
}

func (d *Denied) add(rule, key string) {
	item := d.hash(rule, key)
	s := &d.shards[item%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, taken := s.add(item); taken {
		c.rule, c.key = rule, cutKey(c.key[:0], key, item)
	}
}

// cutKey appends what is kept of a key: a copy, lest it keep alive what it was cut
// out of.
func cutKey(dst []byte, key string, item uint64) []byte {
	const hash = len("~0123456789abcdef")
	if len(key) <= MaxDeniedKey {
		return append(dst, key...)
	}
	return fmt.Appendf(append(dst, key[:MaxDeniedKey-hash]...), "~%016x", item)
}

// Reset forgets all denials and begins anew.
func (d *Denied) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		s.summary = newSummary(d.size)
		s.mu.Unlock()
	}
	d.since = d.clock()
}

// Top is the keys denied most, the greatest Count first, at most as many as the
// Denied was made for.
func (d *Denied) Top() []DeniedKey { return d.report().Keys }

// Since is when the Denied began to count.
func (d *Denied) Since() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}

// report is what is known at one moment; denials that happen meanwhile may be in it
// or not.
type report struct {
	Since   time.Time
	Denials uint64
	Missing uint64 // the most that a key which is not listed can have been denied
	Keys    []DeniedKey
}

func (d *Denied) report() report {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := report{Since: d.since, Keys: []DeniedKey{}}
	for i := range d.shards {
		d.shards[i].reportTo(&r)
	}
	slices.SortFunc(r.Keys, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
	})
	if len(r.Keys) > d.size {
		r.Missing = max(r.Missing, r.Keys[d.size].Count)
		r.Keys = slices.Clip(r.Keys[:d.size])
	}
	return r
}

func (s *shard) reportTo(r *report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Denials += s.length
	r.Missing = max(r.Missing, s.missing())
	for _, c := range s.counters {
		r.Keys = append(r.Keys, DeniedKey{Rule: c.rule, Key: string(c.key), Count: c.n, Error: c.error})
	}
}
