package redis_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/engine"
	"github.com/sluice-go/sluice/internal/engine/enginetest"
	"github.com/sluice-go/sluice/internal/servers"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

func look(time.Time, [][]byte, []driver.Change) error { return nil }

func put(_ time.Time, _ [][]byte, next []driver.Change) error {
	for i := range next {
		next[i] = driver.Change{Verb: driver.Put, State: []byte("x")}
	}
	return nil
}

// Whatever timeouts the client has, or has not, a decision ends with its context.
func TestDecisionsEndWithTheirDeadline(t *testing.T) {
	server := servers.Redis(t)
	for name, o := range map[string]*goredis.Options{
		"none to read":      {ReadTimeout: -1, WriteTimeout: time.Millisecond},
		"none at all":       {ReadTimeout: -1, WriteTimeout: -1},
		"neither asked for": {ReadTimeout: -2, WriteTimeout: -2},
		"short, many times": {ReadTimeout: 90 * time.Millisecond, WriteTimeout: 90 * time.Millisecond, MaxRetries: 1000},
	} {
		for what, decide := range map[string]enginetest.Decide{"put": put, "look": look} {
			t.Run(name+", "+what, func(t *testing.T) {
				o.Addr = server.Addr()
				client := goredis.NewClient(o)
				t.Cleanup(func() { client.Close() })
				e := engine.New(open(t, client, t.Name()), engine.Options{Timeout: long})
				_, err := enginetest.Do(t.Context(), e, []string{"warm"}, put)
				require.NoError(t, err)
				server.Pause()
				defer server.Resume()
				const deadline = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				begun := time.Now()
				_, err = enginetest.Do(ctx, e, []string{"a"}, decide)
				require.Error(t, err)
				require.Less(t, time.Since(begun), deadline+slack)
			})
		}
	}
}

// A decision that the server made the store leave half done is not taken for done
// because a part of it is there.
func TestWhatIsTornIsUnknown(t *testing.T) {
	server := servers.Redis(t)
	do(t, server, "ACL", "SETUSER", "half", "on", "nopass", "~*", "+@all", "-del")
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Username: "half", Password: "x"})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, "torn:")
	create(t, s, creating("b", "x"))
	e := engine.New(s, engine.Options{})
	_, err := enginetest.Do(t.Context(), e, []string{"a", "b"}, func(_ time.Time, found [][]byte, next []driver.Change) error {
		next[0] = driver.Change{Verb: driver.Put, State: []byte("x")}
		if found[1] != nil {
			next[1] = driver.Change{Verb: driver.Delete}
		}
		return nil
	})
	require.ErrorIs(t, err, storage.ErrOutcomeUnknown)
	require.ErrorIs(t, err, storage.ErrTorn)
	require.NotErrorIs(t, err, storage.ErrNotApplied)
	records, err := s.Load(t.Context(), "a", "b")
	require.NoError(t, err)
	require.Equal(t, "x", string(records[0].State), "it is half done")
	require.Equal(t, "x", string(records[1].State))
}

// What is no record cannot be told from one by its length alone.
func TestAVersionOfNothingIsNoRecord(t *testing.T) {
	server := shared.Redis(t)
	s := open(t, newClient(t, server.Addr()), "nothing:")
	do(t, server, "SET", s.NameOf("a"), strings.Repeat("\x00", 8)+"foreign")
	_, err := s.Load(t.Context(), "a")
	require.ErrorContains(t, err, "no record of ours")
	_, _, err = s.CompareAndSwap(t.Context(), creating("a", "x"))
	require.ErrorContains(t, err, "no record of ours")
	require.ErrorIs(t, err, storage.ErrNotApplied)
}

// impatient stands before a server as twemproxy does: it passes everything on, and
// answers the first script with an error of its own, when the server has run it.
func impatient(t *testing.T, server string) (addr string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	var scripts atomic.Int64
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			go relay(client, up, &scripts)
		}
	}()
	return listener.Addr().String()
}

// relay passes on one request and its answer after the other.
func relay(client, up net.Conn, scripts *atomic.Int64) {
	defer client.Close()
	defer up.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		first := bytes.Contains(buffer[:n], []byte("evalsha")) && scripts.Add(1) == 1
		if _, err = up.Write(buffer[:n]); err != nil {
			return
		}
		if n, err = up.Read(buffer); err != nil {
			return
		}
		answer := buffer[:n]
		if first {
			answer = []byte("-ERR Connection timed out\r\n")
		}
		if _, err = client.Write(answer); err != nil {
			return
		}
	}
}

func TestAProxysWordProvesNothing(t *testing.T) {
	server := shared.Redis(t).Addr()
	truth := open(t, newClient(t, server), "proxy:")
	know(t, truth)
	client := goredis.NewClient(&goredis.Options{Addr: impatient(t, server), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	s, err := redis.New(client, redis.Options{Prefix: "proxy:", Spread: true})
	require.NoError(t, err)

	swap := creating("a", "x")
	_, _, err = s.CompareAndSwap(t.Context(), swap)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrNotApplied)
	records, err := truth.Load(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, swap.New.Version, records[0].Version, "it was applied")
}
