package compose_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/compose"
)

func TestWaitTellsWhatDeniesForHowLong(t *testing.T) {
	l, err := compose.New(nil, compose.Rule[call]{Name: "user", Policy: limitOf(t, "gcra 1/m"), Cost: func(call) int64 { return 2 }})
	require.NoError(t, err)
	_, err = l.Wait(background, call{})
	require.EqualError(t, err, `compose: rule "user" denies for ever: context deadline exceeded`)
}
