package redis

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultPrefix is the default of [Options.Prefix].
const DefaultPrefix = "sluice:"

// Options configure a [Store]. The zero value is valid.
type Options struct {
	// Prefix is the beginning of all keys. Empty means DefaultPrefix. It must not contain braces, or begin with the Prefix of
	// another store in the same database, such as "sluice:shop:" beside "sluice:". Otherwise both stores can use the same record,
	// and sluice.Limiter.Clear on one can delete records of the other.
	Prefix string
	// Proxy must be true if the client is a [redis.Client] of a proxy in front of several servers, such as Envoy. Then only
	// requests with the same keys share a script, as with client types that go-redis does not have. An error of the proxy does
	// not prove that a write was not applied. Twemproxy 0.5 cannot be used: it closes the connection at HELLO.
	Proxy bool
}

// Store implements [storage.Store] and [driver.Server] in Redis. It is safe for concurrent use.
type Store struct {
	client        redis.UniversalClient
	prefix        string
	serverOf      func(name string) (*redis.Client, error) // the server of a name or hash tag, in a Redis Cluster or a Ring; otherwise nil
	endsInTime    bool                                     // the client itself ends calls at the deadlines of contexts
	proxy         bool                                     // see Options.Proxy
	separate      bool                                     // requests with different keys always use different scripts
	separateUntil atomic.Int64                             // until then they do, in ns since 1970
	mu            sync.Mutex
	scripts       []*script // those of batches; guarded by mu
	refusal       refusal
}

var (
	_ driver.Server  = (*Store)(nil)
	_ storage.Lister = (*Store)(nil)
)

// New returns a store that uses client, without a ping.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redis: the client must not be nil")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redis: Prefix must not contain braces, got %q", o.Prefix)
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	s := &Store{client: client, prefix: o.Prefix, proxy: o.Proxy, separate: o.Proxy}
	switch c := client.(type) {
	case *redis.Client:
		s.endsInTime = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		s.endsInTime = c.Options().ContextTimeoutEnabled
		s.serverOf = func(name string) (*redis.Client, error) { return c.MasterForKey(cachedOnly, name) }
	case *redis.Ring:
		s.serverOf = c.GetShardClientForKey
	default:
		s.separate = true
	}
	return s, nil
}

//go:embed load.lua
var loadLua string

var loadScript = newScript(loadLua)

func (s *Store) Load(ctx context.Context, keys ...string) (records []storage.Record, now time.Time, err error) {
	if len(keys) == 0 {
		return nil, now, ctx.Err()
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, now, err
	}
	if _, err := s.placeOf(keys); err != nil {
		return nil, now, err
	}
	c := s.newCommand(loadScript, keys, 0)
	if s.send(ctx, false, c); c.err != nil {
		return nil, now, s.commandFailure(ctx, c, c.err)
	}
	return readLoad(c.Val(), keys)
}

// readLoad reads the reply of load.lua: the time in us, and for each key its value and its TTL in ms, which is empty if the key is
// absent.
func readLoad(reply, keys []string) (records []storage.Record, now time.Time, err error) {
	if len(reply) != 1+2*len(keys) {
		return nil, now, errReplyForm
	}
	micros, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return nil, now, errReplyForm
	}
	records = make([]storage.Record, len(keys))
	for i, key := range keys {
		value, ttl := reply[1+2*i], reply[2+2*i]
		if ttl == "" { // the key is absent
			continue
		}
		if records[i], err = decode([]byte(value)); err != nil {
			return nil, now, &storage.KeyError{Key: key, Err: err}
		}
		if ms, err := strconv.ParseInt(ttl, 10, 64); err == nil && ms >= 0 {
			records[i].TTL = max(time.Duration(ms)*time.Millisecond, time.Millisecond) // it may just have expired
		}
	}
	return records, time.UnixMicro(micros), nil
}

var errNoRecord = errors.New("redis: the stored value is not a record of this package; delete it or use another Prefix")

// decode reads a record that recordText returned.
func decode(value []byte) (storage.Record, error) {
	if len(value) < 8 || binary.BigEndian.Uint64(value) == 0 {
		return storage.Record{}, errNoRecord
	}
	return storage.Record{Version: storage.Version(binary.BigEndian.Uint64(value)), State: value[8:]}, nil
}

//go:embed swap.lua
var swapLua string

var swapScript = newScript(swapLua)

func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil || len(swaps) == 0 {
		return nil, err == nil, err
	}
	if _, err := s.placeOf(keys); err != nil {
		return nil, false, err
	}
	c := s.newCommand(swapScript, keys, 3*len(swaps))
	for i := range swaps {
		w, ttl := &swaps[i], "" // it never expires
		if w.TTL > 0 {
			ttl = strconv.FormatInt(milliseconds(w.TTL), 10)
		}
		c.args = append(c.args, recordText(storage.Record{Version: w.Old}), recordText(w.New), ttl)
	}
	s.send(ctx, false, c)
	if c.err != nil {
		return nil, false, s.commandFailure(ctx, c, c.err)
	}
	return s.readSwap(c.Val(), keys)
}

var errReplyForm = errors.New("the reply of the script has an unexpected form")

// readSwap reads the reply of swap.lua.
func (s *Store) readSwap(reply []string, keys []string) (current []storage.Record, swapped bool, err error) {
	switch {
	case len(reply) == 1 && reply[0] == "SWAPPED":
		return nil, true, nil
	case len(reply) == 1+len(keys) && reply[0] == "CONFLICT":
		current = make([]storage.Record, len(keys))
		if err := decodeAll(current, reply[1:], nil); err != nil {
			return nil, false, err
		}
		return current, false, nil
	case len(reply) == 2 && reply[0] == "NORECORD":
		i, _ := strconv.Atoi(reply[1])
		if i < 1 || i > len(keys) {
			break
		}
		return nil, false, storage.NotApplied(&storage.KeyError{Key: keys[i-1], Err: errNoRecord})
	case len(reply) == 2 && reply[0] == "ERROR":
		return nil, false, s.failure(replyError(reply[1]))
	}
	return nil, false, s.failure(errReplyForm)
}
