package stores

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage/memory"
)

func TestAddresses(t *testing.T) {
	tracetest.Answers(t, "testdata/addresses.txt", func(address string) string {
		if err := check(address); err != nil {
			require.NotContains(t, err.Error(), "secret")
			return err.Error()
		}
		return redacted(address)
	})
}

// The memory store's own clock counts on from its first use, so it would be wrong after a step of the machine's clock.
func TestMemoryFollowsTheClockOfTheMachine(t *testing.T) {
	s, err := Open("memory:", Options{})
	require.NoError(t, err)
	require.NotNil(t, s.Store.(*memory.Store).Clock)
}
