package httplimit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

// Whatever a client sends before what the proxy adds, it is found.
func FuzzSpoofing(f *testing.F) {
	for _, forgery := range []string{"", "198.51.100.7", "10.0.0.9, ", `for="`, `for="x\`, `";for=198.51.100.7`, "\x00", ",\",", `\\"`} {
		f.Add(forgery, forgery)
	}
	f.Fuzz(func(t *testing.T, line, start string) {
		plain, forwarded := behind(t, httplimit.ClientIP{}), behind(t, httplimit.ClientIP{Forwarded: true})
		require.Equal(t, "203.0.113.6", plain(from("10.0.0.1:80", xff, line, start+",203.0.113.6, 10.0.0.2")))
		require.Equal(t, "203.0.113.6", forwarded(from("10.0.0.1:80", "Forwarded", line, start+`,for=203.0.113.6;host="a,\"b",for="[fd00::1]:80"`)))
	})
}
