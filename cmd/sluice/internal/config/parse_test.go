package config_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

func TestAFile(t *testing.T) {
	f, err := config.Parse("limits.yaml", []byte(`
trusted: [10.0.0.0/8, 192.0.2.1, 2001:db8::/32, ::1]
rules:
  - name: client
    policy: gcra 100/m burst=20
    by: ip
  - name: login
    policy: fixedwindow 5/h
    by: [ip, path]
    methods: POST
    paths: [/login, /api/*]
    cost: 2
    shadow: true
`))
	require.NoError(t, err)
	require.Len(t, f.Rules, 2)
	require.Equal(t, "[10.0.0.0/8 192.0.2.1/32 2001:db8::/32 ::1/128]", fmt.Sprint(f.Trusted))
	login := f.Rules[1]
	require.Equal(t, "ip+path", login.ByString())
	require.Equal(t, config.Cost{Units: 2}, login.Cost)
	require.True(t, login.Shadow)
	require.True(t, login.For("POST", &url.URL{Path: "/login/"}))
	require.False(t, login.For("GET", &url.URL{Path: "/login"}))
}

// TestRulesByAddressWithoutAListOfProxies: trusted: [] means that there is no proxy.
func TestRulesByAddressWithoutAListOfProxies(t *testing.T) {
	const rules = `
rules:
  - {name: all, policy: gcra 1/s}
  - {name: client, policy: gcra 1/s, by: [path, ip]}
  - {name: key, policy: gcra 1/s, by: header:X-Key}
  - {name: strict, policy: gcra 1/s, by: header:X-Key, missing: deny}
`
	for trusted, want := range map[string][]string{"": {"client", "key"}, "trusted: []": nil, "trusted: 10.0.0.1": nil} {
		f, err := config.Parse("limits.yaml", []byte(trusted+rules))
		require.NoError(t, err)
		require.Equal(t, want, f.LacksTrusted(), trusted)
	}
}
