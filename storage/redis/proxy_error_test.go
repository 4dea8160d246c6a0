package redis_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// newErrorProxy returns the address of a proxy in front of a server. Like twemproxy after a timeout,
// it answers the first script with an error of its own, although the server has run the script.
func newErrorProxy(t *testing.T, server string) string {
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
			go forward(client, up, &scripts)
		}
	}()
	return listener.Addr().String()
}

// forward forwards requests and replies one by one.
func forward(client, up net.Conn, scripts *atomic.Int64) {
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
		reply := buffer[:n]
		if first {
			reply = []byte("-ERR Connection timed out\r\n")
		}
		if _, err = client.Write(reply); err != nil {
			return
		}
	}
}

func TestErrorOfAProxyLeavesTheOutcomeUnknown(t *testing.T) {
	server := shared.Redis(t).Addr()
	direct := open(t, newClient(t, server), t.Name())
	loadScripts(t, direct)
	policy, p := programOf(t, algo.Per(2, time.Hour))
	runOK(t, direct, oneRequest(p, "warm"))
	behindProxy := func() *redis.Store {
		client := newClientWith(t, goredis.Options{Addr: newErrorProxy(t, server), Protocol: 2, DisableIdentity: true})
		s, err := redis.New(client, redis.Options{Prefix: t.Name(), Proxy: true})
		require.NoError(t, err)
		return s
	}
	_, _, err := behindProxy().CompareAndSwap(t.Context(), creating("a", "x"))
	requireUnknown(t, err)
	require.Equal(t, "x", stored(t, direct, "a"))

	s, b := behindProxy(), oneRequest(p, "b")
	run(t, s, b)
	requireUnknown(t, b.Err)
	require.EqualValues(t, 1, usedOf(t, direct, policy, "b"))
}

func TestErrorOfAScriptIsCertain(t *testing.T) {
	s, err := redis.New(newClientOf(t, shared.Redis(t), "no-get", allBut("get")...), redis.Options{Prefix: t.Name(), Proxy: true})
	require.NoError(t, err)
	for n := range 2 {
		_, _, err = s.CompareAndSwap(t.Context(), creatingN(n+1, "a")...)
		require.ErrorIs(t, err, storage.ErrNotApplied)
		require.NotErrorIs(t, err, storage.ErrUnavailable)
	}
}
