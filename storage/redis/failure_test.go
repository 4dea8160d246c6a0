package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/redis"
)

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestErrorsAreClassified(t *testing.T) {
	for _, c := range []struct {
		err                     error
		unavailable, notApplied bool
	}{
		{reply("READONLY You can't write against a read only replica."), true, true},
		{fmt.Errorf("on connecting: %w", reply("ERR max number of clients reached")), true, true},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true, true},
		{reply("CLUSTERDOWN The cluster is down"), true, true},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), false, true},
		{reply("NOAUTH Authentication required."), false, true},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), false, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true, true},
		{goredis.ErrPoolTimeout, true, true},
		{goredis.ErrClosed, false, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true, false},
		{io.EOF, true, false},
		{context.DeadlineExceeded, true, false},
	} {
		err := redis.Classify(c.err)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.unavailable, errors.Is(err, storage.ErrUnavailable), c.err)
		require.Equal(t, c.notApplied, errors.Is(err, storage.ErrNotApplied), c.err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, client := range []goredis.UniversalClient{nil, (*goredis.Client)(nil), (*goredis.ClusterClient)(nil)} {
		_, err := redis.New(client, redis.Options{})
		require.ErrorContains(t, err, "must not be nil")
	}
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	_, err := redis.New(client, redis.Options{Prefix: "a{b"})
	require.ErrorContains(t, err, "must not contain braces")
}
