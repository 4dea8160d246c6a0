package serve

import (
	"io"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Off is 0s in a flag, and a negative value in the options of package sluice.
func TestTheCircuitBreakerAndTheDenialCacheCanBeTurnedOff(t *testing.T) {
	for _, c := range []struct {
		args        []string
		after, keep time.Duration
	}{
		{nil, time.Second, time.Second},
		{[]string{"--circuit-open-after=5s", "--denial-cache-ttl=20ms"}, 5 * time.Second, 20 * time.Millisecond},
		{[]string{"--circuit-open-after=0s", "--denial-cache-ttl=0s"}, -1, -1},
	} {
		var f serveFlags
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.Define(flags)
		require.NoError(t, flags.Parse(append(c.args, "--limit=gcra 1/s")))
		o, err := f.options(io.Discard)
		require.NoError(t, err)
		require.Equal(t, c.after, o.CircuitOpenAfter, c.args)
		require.Equal(t, c.keep, o.DenialCacheTTL, c.args)
	}
}
