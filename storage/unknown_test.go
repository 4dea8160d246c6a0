package storage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
)

// refusing loses the first reply, and refuses all that is sent again.
type refusing struct {
	storage.Store
	calls int
}

func (s *refusing) CompareAndSwap(context.Context, ...storage.Swap) ([]storage.Record, bool, error) {
	if s.calls++; s.calls == 1 {
		return nil, false, fmt.Errorf("%w: the reply was lost", storage.ErrUnavailable)
	}
	return nil, false, storage.NotApplied(fmt.Errorf("%w: refused", storage.ErrUnavailable))
}

// That a later attempt was not applied does not prove it of the first.
func TestAnUnknownOutcomeIsNeverSaidNotToBeApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := storage.NewEngine(&refusing{}, storage.EngineOptions{})
		c := count{limit: 3}
		_, err := e.Do(background, []string{"a"}, c.decide)
		require.ErrorIs(t, err, storage.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, storage.ErrNotApplied)
	})
}
