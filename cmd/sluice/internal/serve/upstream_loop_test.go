package serve

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpstreamMustNotBeTheProxyItself(t *testing.T) {
	for _, c := range []struct {
		listen, upstream string
		loops            bool
	}{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"127.0.0.1:8080", "http://localhost:8080/app", true},
		{"127.0.0.1:8080", "http://LOCALHOST:8080", true},
		{"127.0.0.1:8080", "http://localhost.:8080", true},
		{"127.0.0.1:8080", "http://0.0.0.0:8080", true},
		{"127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080", true},
		{"127.0.0.1:8080", "https://127.0.0.1:8080", true},
		{"[::1]:8080", "http://localhost:8080", true},
		{":8080", "http://localhost:8080", true},
		{":8080", "http://[::1]:8080", true},
		{":8080", "http://127.0.0.2:8080", true},
		{"0.0.0.0:8080", "http://127.0.0.1:8080", true},
		{"[::]:8080", "http://127.0.0.1:8080", true},
		{":80", "http://127.0.0.1", true},
		{":443", "https://127.0.0.1", true},

		{"127.0.0.1:8080", "http://127.0.0.1:3000", false},
		{"127.0.0.1:8080", "http://127.0.0.2:8080", false},
		{"127.0.0.1:8080", "http://[::1]:8080", false},
		{":8080", "http://192.0.2.1:8080", false},
		{":8080", "http://127.0.0.1", false},
		{":443", "http://127.0.0.1", false},
		{"127.0.0.1:0", "http://127.0.0.1:0", false},
		{"127.0.0.1:0", "http://127.0.0.1:70000", false},
	} {
		upstream, err := url.Parse(c.upstream)
		require.NoError(t, err)
		_, _, err = (&Options{Upstream: upstream, Listen: c.listen}).Addresses()
		if !c.loops {
			require.NoError(t, err, "%s before %s", c.listen, c.upstream)
			continue
		}
		require.EqualError(t, err, "--upstream "+c.upstream+" is the address of --listen "+c.listen+", so each request would return to the proxy; want the program behind the proxy, or another --listen")
	}
}
