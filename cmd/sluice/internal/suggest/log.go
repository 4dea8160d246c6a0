package suggest

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// Memory is how many bytes several logs can still take together. Only one goroutine may use it.
type Memory int64

// Take takes bytes. It returns [ErrMemory] if they are not left.
func (m *Memory) Take(bytes int64) error {
	if *m -= Memory(bytes); *m < 0 {
		return ErrMemory
	}
	return nil
}

// ErrMemory is returned if the requests do not fit into the Memory.
var ErrMemory = errors.New("suggest: the requests do not fit into the memory")

// The memory of a request and of a key, in bytes.
const (
	// requestBytes is an instant, and the room that append adds.
	requestBytes = 20
	// keyBytes is the most that a key needs besides its own bytes.
	keyBytes = 150
)

// Log has the requests of each key in the order of time. Only one goroutine may add requests. After Sort, any
// number of goroutines may read the Log.
type Log struct {
	memory   *Memory
	ids      map[string]uint32 // numbers keys in the order of their first requests
	keys     []key
	sorted   []key // those with the most requests first
	requests int64
}

// key has the name of a key and the times of its requests.
type key struct {
	name string
	at   []int64
}

// NewLog returns an empty log, which takes its memory from m.
func NewLog(m *Memory) *Log {
	return &Log{memory: m, ids: make(map[string]uint32)}
}

// Add adds a request, and returns the number of its key, from 0. Its time must not be before that of the
// previous request. It returns ErrMemory if there is no memory left.
func (l *Log) Add(at time.Time, name []byte) (id uint32, err error) {
	now := algo.Instant(at)
	need := int64(requestBytes)
	id, seen := l.ids[string(name)]
	if !seen {
		id = uint32(len(l.keys))
		owned := string(name)
		l.ids[owned] = id
		l.keys = append(l.keys, key{name: owned})
		need += keyBytes + int64(len(name))
	}
	l.keys[id].at = append(l.keys[id].at, now)
	l.requests++
	return id, l.memory.Take(need)
}

// Sort sorts the keys for searches. No request is added afterwards.
func (l *Log) Sort() {
	l.sorted = slices.Clone(l.keys)
	slices.SortStableFunc(l.sorted, func(a, b key) int { return cmp.Compare(len(b.at), len(a.at)) })
	l.ids = nil
}

// Len returns the number of requests.
func (l *Log) Len() int64 { return l.requests }

// Clients returns the number of keys.
func (l *Log) Clients() int64 { return int64(len(l.keys)) }

// Name returns the key with a number.
func (l *Log) Name(id uint32) string { return l.keys[id].name }

// most returns the largest number of requests of one key.
func (l *Log) most() int64 {
	if len(l.sorted) == 0 {
		return 0
	}
	return int64(len(l.sorted[0].at))
}

// above returns the keys with more than n requests.
func (l *Log) above(n int64) []key {
	return l.sorted[:sort.Search(len(l.sorted), func(i int) bool { return int64(len(l.sorted[i].at)) <= n })]
}
