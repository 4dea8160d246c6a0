package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultPrefix is the prefix of all keys if [Options.Prefix] is empty.
const DefaultPrefix = "sluice:"

// Options configure a [Store]. The zero value is valid.
type Options struct {
	// Prefix is the beginning of all keys. Empty means DefaultPrefix. Stores with different
	// prefixes share no records. Prefix must not contain braces.
	Prefix string
	// Proxy must be true if the client is a [redis.Client] of a proxy in front of several servers,
	// such as twemproxy or Envoy. Then a script has the keys of one decision only. An error that the
	// proxy reports for a write does not prove that the write was not applied. For clients of types
	// that go-redis does not define, scripts always have the keys of one decision.
	Proxy bool
}

// Store keeps records in Redis. It is safe for concurrent use.
type Store struct {
	client         redis.UniversalClient
	prefix         string
	single         *redis.Client            // the client, if it has one server
	cluster        *redis.ClusterClient     // the client, if it is one
	ring           *redis.Ring              // the client, if it is one
	place          func(name string) string // keys with the same place are on one server; nil if all are
	endsInTime     bool                     // the client itself ends calls at the deadlines of contexts
	proxy          bool                     // see Options.Proxy
	separate       bool                     // requests with different keys always use different scripts
	separateUntil  atomic.Int64             // until then they do, in ns since 1970
	scripts        scripts
	deadlineClient atomic.Pointer[deadlineClient]
}

var _ driver.Placer = (*Store)(nil)

// New returns a store that uses client. It neither pings nor closes the client.
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
		s.single, s.endsInTime = c, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		s.cluster, s.endsInTime = c, c.Options().ContextTimeoutEnabled
		s.place = func(name string) string { return strconv.Itoa(slot(name)) }
	case *redis.Ring:
		s.ring, s.place = c, hashTag
	default:
		s.separate = true
	}
	return s, nil
}

// Load implements [storage.Store]. It reads the records in one pipeline.
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	gets, names := make([]*redis.StringCmd, len(keys)), make([]string, len(keys))
	for i, key := range keys { // if ctx ends, the pipeline may run on after the caller has the slice back
		names[i] = s.key(key)
	}
	err := s.doUntilDone(ctx, func(client redis.UniversalClient) error {
		pipe := client.Pipeline()
		for i, name := range names {
			gets[i] = pipe.Get(ctx, name)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, s.failure(err)
	}
	records := make([]storage.Record, len(keys))
	for i, get := range gets {
		value, err := get.Bytes()
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			return nil, s.failure(err)
		}
		if records[i], err = decode(value); err != nil {
			return nil, fmt.Errorf("%w: key %.40q", err, names[i])
		}
	}
	return records, nil
}

// doUntilDone calls do in a goroutine and returns when ctx ends, even if do does not. go-redis
// ignores cancellations, and without ContextTimeoutEnabled it ignores deadlines, too.
func (s *Store) doUntilDone(ctx context.Context, do func(redis.UniversalClient) error) error {
	if ctx.Done() == nil {
		return do(s.client)
	}
	done := make(chan error, 1)
	go func() { done <- do(s.client) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// doUntilDeadline calls do and returns at the deadline of ctx, even if the client does not end then.
// It need not notice cancellation, so it needs a goroutine only if the client has several servers.
func (s *Store) doUntilDeadline(ctx context.Context, do func(redis.UniversalClient) error) error {
	if _, limited := ctx.Deadline(); s.endsInTime || !limited {
		return do(s.client)
	}
	if s.single == nil {
		return s.doUntilDone(ctx, do)
	}
	return do(s.withDeadlines(time.Now()))
}

var errNoRecord = errors.New("redis: the stored value is not a record of this package; delete it or use another Prefix")

// decode reads a record that appendRecord wrote.
func decode(value []byte) (storage.Record, error) {
	if len(value) < 8 || binary.BigEndian.Uint64(value) == 0 {
		return storage.Record{}, errNoRecord
	}
	return storage.Record{Version: storage.Version(binary.BigEndian.Uint64(value)), State: value[8:]}, nil
}
