package redis

import (
	"context"
	"math"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestTimeoutsAreRoundedByAtMostOneIn64(t *testing.T) {
	for d := time.Duration(1); d < math.MaxInt64/3; d = d*3/2 + 1 {
		c := roundTimeout(d)
		require.Positive(t, c)
		require.LessOrEqual(t, c, d)
		require.LessOrEqual(t, d-c, d/64, d)
	}
	require.Equal(t, roundTimeout(time.Second-time.Microsecond), roundTimeout(time.Second-time.Millisecond))
}

func TestClientWithAShortTimeoutIsReused(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:0"})
	defer client.Close()
	s, err := New(client, Options{})
	require.NoError(t, err)
	now := time.Unix(1e9, 0)
	first := s.withTimeout(time.Second, now)
	require.Equal(t, time.Second, first.Options().ReadTimeout)
	require.Same(t, first, s.withTimeout(time.Second, now.Add(timeoutClientReuse-1)))
	require.NotSame(t, first, s.withTimeout(time.Second, now.Add(timeoutClientReuse)))
	require.NotSame(t, first, s.withTimeout(time.Minute, now))

	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	require.Same(t, client, s.withinDeadline(ctx), "its own timeouts are shorter")
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	in := s.withinDeadline(ctx).(*goredis.Client).Options()
	require.LessOrEqual(t, in.ReadTimeout, time.Second)
	require.Equal(t, in.ReadTimeout, in.WriteTimeout)
}
