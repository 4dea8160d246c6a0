package redis

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestClientWithDeadlinesIsReused(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:0", ReadTimeout: time.Minute, WriteTimeout: -1})
	defer client.Close()
	s, err := New(client, Options{})
	require.NoError(t, err)
	now := time.Unix(1e9, 0)
	first := s.withDeadlines(now)
	require.True(t, first.Options().ContextTimeoutEnabled)
	require.Equal(t, time.Minute, first.Options().ReadTimeout)
	require.Zero(t, first.Options().WriteTimeout)
	require.Same(t, first, s.withDeadlines(now.Add(deadlineClientReuse-1)))
	require.NotSame(t, first, s.withDeadlines(now.Add(deadlineClientReuse)))
	require.False(t, client.Options().ContextTimeoutEnabled, "the caller's client stays as it is")
}
