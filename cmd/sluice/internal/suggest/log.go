package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Memory limits the memory of several logs together. Only one goroutine may use it.
type Memory struct {
	left int64 // bytes
}

// NewMemory returns a Memory of that many bytes.
func NewMemory(bytes int64) *Memory { return &Memory{bytes} }

// Take takes bytes. It returns [ErrMemory] if they are not left.
func (m *Memory) Take(bytes int64) error {
	if m.left -= bytes; m.left < 0 {
		return ErrMemory
	}
	return nil
}

// ErrMemory is returned if the requests do not fit into the Memory.
var ErrMemory = errors.New("suggest: the requests do not fit into the memory")

// The memory of a request and of a key, in bytes.
const (
	// RequestBytes is an instant and the number of a key, and the instant again while Group copies it.
	RequestBytes = 8 + 4 + 8
	// KeyBytes is the most that a key needs besides its own bytes.
	KeyBytes = 150
)

// Log collects requests in the order of time. Only one goroutine may use it.
type Log struct {
	memory *Memory
	ids    map[string]uint32 // numbers keys in the order of their first requests
	keys   []key
	chunks []*chunk
	last   int64
}

// key has the name of a key and the number of its requests.
type key struct {
	name     string
	requests int64
}

// chunk has some requests.
type chunk struct {
	n   int
	at  [4096]int64
	key [4096]uint32
}

// NewLog returns an empty log, which takes its memory from m.
func NewLog(m *Memory) *Log {
	return &Log{memory: m, ids: make(map[string]uint32)}
}

// Add adds a request, and returns the number of its key, from 0. It returns an error if the time is
// before that of the previous request, and ErrMemory if there is no memory left.
func (l *Log) Add(at time.Time, key []byte) (id uint32, err error) {
	now := algo.Instant(at)
	if now < l.last {
		return 0, fmt.Errorf("suggest: request at %v comes after one at %v", at.UTC(), time.UnixMicro(l.last).UTC())
	}
	l.last = now
	if id, err = l.id(key); err != nil {
		return 0, err
	}
	if err := l.memory.Take(RequestBytes); err != nil {
		return 0, err
	}
	l.keys[id].requests++
	if len(l.chunks) == 0 || l.chunks[len(l.chunks)-1].n == len(chunk{}.at) {
		l.chunks = append(l.chunks, new(chunk))
	}
	c := l.chunks[len(l.chunks)-1]
	c.at[c.n], c.key[c.n] = now, id
	c.n++
	return id, nil
}

func (l *Log) id(name []byte) (uint32, error) {
	id, seen := l.ids[string(name)]
	if seen {
		return id, nil
	}
	id = uint32(len(l.keys))
	owned := string(name)
	l.ids[owned] = id
	l.keys = append(l.keys, key{name: owned})
	return id, l.memory.Take(KeyBytes + int64(len(name)))
}

// Requests has the requests of a log, grouped by key. It is immutable, so any number of goroutines
// may use it.
type Requests struct {
	keys []key // those with the most requests first
	at   []int64
	ends []int // by key, the end of its requests in at
}

// Group returns the requests, and the index of each key in the result by its number. It frees the
// requests in the Log, which must not be used afterwards.
func (l *Log) Group() (r *Requests, index []uint32) {
	order := make([]uint32, len(l.keys))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(l.keys[b].requests, l.keys[a].requests), cmp.Compare(a, b))
	})
	r = &Requests{keys: make([]key, len(order)), ends: make([]int, len(order))}
	index = make([]uint32, len(order))
	sum := 0
	for i, id := range order {
		k := l.keys[id]
		r.keys[i], index[id] = k, uint32(i)
		r.ends[i] = sum // becomes the end when the key's requests are copied
		sum += int(k.requests)
	}
	r.at = make([]int64, sum)
	for i, c := range l.chunks {
		for j, id := range c.key[:c.n] {
			end := &r.ends[index[id]]
			r.at[*end] = c.at[j]
			*end++
		}
		l.chunks[i] = nil
	}
	*l = Log{}
	return r, index
}

// Len returns the number of requests.
func (r *Requests) Len() int64 { return int64(len(r.at)) }

// Clients returns the number of keys.
func (r *Requests) Clients() int64 { return int64(len(r.keys)) }

// Name returns the key with an index.
func (r *Requests) Name(i uint32) string { return r.keys[i].name }

// of returns the times of the requests of a key.
func (r *Requests) of(k int) []int64 {
	end := r.ends[k]
	return r.at[end-int(r.keys[k].requests) : end]
}

// most returns the largest number of requests of one key.
func (r *Requests) most() int64 {
	if len(r.keys) == 0 {
		return 0
	}
	return r.keys[0].requests
}

// above returns how many keys have more than n requests. They are the first ones.
func (r *Requests) above(n int64) int {
	return sort.Search(len(r.keys), func(i int) bool { return r.keys[i].requests <= n })
}
