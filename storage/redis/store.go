package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// DefaultPrefix is what keys begin with when the options do not say.
const DefaultPrefix = "sluice:"

// Options configure a [Store]. The zero value is ready.
type Options struct {
	// Prefix is what all keys begin with; empty means DefaultPrefix. Stores
	// with different prefixes do not meet. It must not contain braces.
	Prefix string
	// Spread says that the client, though it knows of one server only, stands before
	// several, such as those of twemproxy or Envoy: a script has the keys of one
	// decision then, and not of several. Clients of other types than [redis.Client]
	// are taken to do so anyway. What such a one says for itself, when it has sent a
	// write on and got no answer in time, proves nothing of the write.
	Spread bool
}

// Store keeps records in Redis. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	plain  *redis.Client // the client, if it knows of one server only
	prefix string
	place  placing
	heeds  bool // the client ends with the deadlines of contexts
	spread bool // something stands between the client and the servers
	// separateUntil is nil, or until when requests of different keys do not share a script.
	separateUntil atomic.Pointer[time.Time]
	alwaysApart   bool // they never do
	scripts       scripts
	timeoutClient atomic.Pointer[timeoutClient]
}

var (
	_ driver.Placer     = (*Store)(nil)
	_ driver.ServerTime = (*Store)(nil)
)

// New makes a store on client, which it neither pings nor closes.
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
	s := &Store{client: client, prefix: o.Prefix, place: placingOf(client), heeds: heeds(client), spread: o.Spread}
	s.plain, _ = client.(*redis.Client)
	s.alwaysApart = o.Spread || s.plain == nil && s.place == anywhere
	return s, nil
}

// Load implements [storage.Store].
func (s *Store) Load(ctx context.Context, keys ...string) ([]storage.Record, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	return s.load(ctx, keys, nil)
}

// LoadNow implements [driver.ServerTime]. It is Load, and returns the server's time, read in the same round trip before the records. In a
// cluster it is the time of one of the servers.
func (s *Store) LoadNow(ctx context.Context, keys ...string) ([]storage.Record, time.Time, error) {
	var now *redis.TimeCmd
	records, err := s.load(ctx, keys, func(pipe redis.Pipeliner) { now = pipe.Time(ctx) })
	if err == nil {
		err = now.Err()
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return records, now.Val(), nil
}

// load reads records in one pipeline, which begins with the commands that first adds.
func (s *Store) load(ctx context.Context, keys []string, first func(redis.Pipeliner)) ([]storage.Record, error) {
	if err := driver.CheckLoad(keys); err != nil {
		return nil, err
	}
	gets, names := make([]*redis.StringCmd, len(keys)), make([]string, len(keys))
	for i, key := range keys { // the slice is the caller's again if the context ends first
		names[i] = s.key(key)
	}
	err := s.within(ctx, func(c redis.UniversalClient) error {
		pipe := c.Pipeline()
		if first != nil {
			first(pipe)
		}
		for i, name := range names {
			gets[i] = pipe.Get(ctx, name)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, s.failed(err)
	}
	records := make([]storage.Record, len(keys))
	for i, get := range gets {
		if records[i], err = s.record(keys[i], get); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// record is what was found under a key.
func (s *Store) record(key string, get *redis.StringCmd) (storage.Record, error) {
	value, err := get.Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return storage.Record{}, nil
	case err != nil:
		return storage.Record{}, s.failed(err)
	}
	r, err := decode(value)
	if err != nil {
		return r, fmt.Errorf("%w: key %.40q", err, s.key(key))
	}
	return r, nil
}

// within lets do use the client, and returns when ctx ends. By itself the client ends with a
// deadline only if it was made with ContextTimeoutEnabled, and never with a cancellation.
func (s *Store) within(ctx context.Context, do func(redis.UniversalClient) error) error {
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

// heeds reports whether the client ends with the deadline of a context by itself.
func heeds(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}

// decode reads a record as appendRecord writes it.
func decode(value []byte) (storage.Record, error) {
	if len(value) < 8 || binary.BigEndian.Uint64(value) == 0 {
		return storage.Record{}, errors.New("redis: what is stored is no record of ours")
	}
	return storage.Record{Version: storage.Version(binary.BigEndian.Uint64(value)), State: value[8:]}, nil
}
