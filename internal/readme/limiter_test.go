package readme

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/memory"
)

type call struct{ user string }

func newLimiter(store storage.Store) (*compose.Limiter[call], error) {
	perUser, err := compose.ParsePolicy("gcra 100/m burst=20")
	if err != nil {
		return nil, err
	}
	overall, err := compose.ParsePolicy("gcra 1000/s")
	if err != nil {
		return nil, err
	}
	return compose.New(store,
		compose.Rule[call]{Name: "user", Key: func(c call) string { return c.user }, Policy: perUser},
		compose.Rule[call]{Name: "everyone", Policy: overall})
}

func TestLimiter(t *testing.T) {
	limiter, err := newLimiter(new(memory.Store))
	require.NoError(t, err)
	d, err := limiter.AllowN(context.Background(), call{user: "ann"}, 20)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	d, err = limiter.Allow(context.Background(), call{user: "ann"})
	require.NoError(t, err)
	require.Equal(t, "user", d.Rule)
}
