package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rules"
)

func TestHeadersToTheUpstream(t *testing.T) {
	const trusting, forwarded = "trusted: [127.0.0.0/8]\n", "trusted: [127.0.0.0/8]\nforwarded: true\n"
	for _, c := range []struct {
		name   string
		trust  string
		sent   []string
		want   map[string]string // "" is absent
		client string            // the key
	}{
		{"nothing", "", nil,
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "http"}, "127.0.0.1"},
		{"forged", "",
			[]string{"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "X-Forwarded-Proto", "https", "X-Forwarded-User", "root",
				"Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6", "X_Forwarded_For", "6.6.6.6"},
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "http", "X-Forwarded-User": "",
				"Forwarded": "", "X-Real-Ip": "", "X_forwarded_for": ""}, "127.0.0.1"},
		{"forged and dropped on the way", "", []string{"X-Forwarded-For", "6.6.6.6", "Connection", "X-Forwarded-For, X-Forwarded-Host"},
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example"}, "127.0.0.1"},
		{"by a trusted proxy", trusting,
			[]string{"X-Forwarded-For", "6.6.6.6, 203.0.113.7", "X-Forwarded-Host", "www.example", "X-Forwarded-Proto", "https", "X-Forwarded-User", "ann", "X-Real-Ip", "203.0.113.7"},
			map[string]string{"X-Forwarded-For": "6.6.6.6, 203.0.113.7, 127.0.0.1", "X-Forwarded-Host": "www.example", "X-Forwarded-Proto": "https", "X-Forwarded-User": "ann", "X-Real-Ip": "203.0.113.7"}, "203.0.113.7"},
		{"by a trusted proxy, on several lines", trusting, []string{"X-Forwarded-For", "6.6.6.6", "X-Forwarded-For", "203.0.113.7"},
			map[string]string{"X-Forwarded-For": "6.6.6.6, 203.0.113.7, 127.0.0.1"}, "203.0.113.7"},
		{"Forwarded, by a trusted proxy", forwarded, []string{"Forwarded", `for=6.6.6.6, for="[2001:db8::7]:4711"`, "X-Forwarded-For", "6.6.6.6"},
			map[string]string{"X-Forwarded-For": "2001:db8::7, 127.0.0.1", "Forwarded": `for=6.6.6.6, for="[2001:db8::7]:4711"`}, "2001:db8::/64"},
		{"of IPv4, with IPv6 trusted", "trusted: [\"::/1\"]\n", []string{"X-Forwarded-For", "6.6.6.6"},
			map[string]string{"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1"},
		{"the other kind, through a trusted proxy", trusting, []string{"X-Forwarded-For", "203.0.113.7", "Forwarded", "for=6.6.6.6", "X_Forwarded_For", "6.6.6.6", "X_Real_Ip", "6.6.6.6"},
			map[string]string{"X-Forwarded-For": "203.0.113.7, 127.0.0.1", "Forwarded": "", "X_forwarded_for": "", "X_real_ip": ""}, "203.0.113.7"},
		{"the other kind, through one that writes Forwarded", forwarded, []string{"Forwarded", "for=203.0.113.7", "X-Forwarded-Host", "evil", "X-Forwarded-User", "root", "X-Real-Ip", "203.0.113.7"},
			map[string]string{"X-Forwarded-For": "203.0.113.7, 127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-User": "", "X-Real-Ip": "203.0.113.7"}, "203.0.113.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan http.Header, 1)
			w := startTestServer(t, c.trust+oneByIP, withUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
			fetch(t, w.proxyURL("/"), append(c.sent, "Host", "shop.example")...)
			got := <-seen
			for name, want := range c.want {
				require.Equal(t, want, got.Get(name), name)
			}
			require.Contains(t, w.decide("peek", `{"key":"`+c.client+`"}`).body, `"remaining":2`)
		})
	}
}

// TestForgedHeadersAreRemoved: all spellings are removed, and no other headers.
func TestForgedHeadersAreRemoved(t *testing.T) {
	for _, name := range []string{
		"Forwarded-For", "X-Remote-Addr", "X-Originating-Ip", "X-Proxyuser-Ip", "Cf-Connecting-Ipv6", "True-Client-Ip", "X-Real-Ip", "X-Forward-For",
		"X-Original-Url", "X-Envoy-Original-Path", "X-Rewrite-Uri", "X-Request-Uri", "X-Http-Method-Override", "X-Http-Method", "X-Original-Query",
		"X-Host", "X-Http-Host-Override", "X-Scheme", "X-Original-Proto", "Front-End-Https", "X-Forwarded-Prefix", "X-Client-Ip", "X-Cluster-Client-Ip",
	} {
		h := http.Header{name: {"6.6.6.6"}}
		dropForged(h, func(string) bool { return false })
		require.NotEmpty(t, h, "a trusted proxy may say %s", name)
		dropForged(h, func(string) bool { return true })
		require.Empty(t, h, name)
	}
	for _, name := range []string{"X_forwarded_for", "X.Forwarded.For", "X-Forwarded_user", "X~Real|Ip", "X_http_Method-Override", "X_Host", "Proxy"} {
		h := http.Header{name: {"6.6.6.6"}}
		dropForged(h, func(string) bool { return false })
		require.Empty(t, h, name)
	}
	others := make(http.Header)
	for _, name := range []string{
		"Api_key", "X.team", "X-Forward", "Content-Type", "X-Client-Id", "X-Client-Version", "X-Real-User", "X-Request-Id", "X-Method-Name",
		"X-Override", "X-Original-Filename", "X-Target-Ip", "Origin", "Referer", "Access-Control-Request-Method", "Via", "X-Webhook-Url", "Callback-Uri",
	} {
		others.Set(name, "a")
	}
	want := others.Clone()
	dropForged(others, func(string) bool { return true })
	require.Equal(t, want, others)
}

const trustingLoopback = "trusted: [127.0.0.1]\n" + oneByIP

// TestAWrongTrustedListIsLoggedAndCounted: the log has the peer and the remedy.
func TestAWrongTrustedListIsLoggedAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		rules, field, value, reason, log string
	}{
		"untrusted":            {oneByIP, "X-Forwarded-For", "203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 remedy="if the peer is your own proxy, add its address to trusted`},
		"untrusted, Forwarded": {oneByIP, "Forwarded", "for=203.0.113.7", untrustedPeer, `not trusted" peer=127.0.0.1 `},
		"garbage":              {trustingLoopback, "X-Forwarded-For", "SECRET", noAddress, `no client address" peer=127.0.0.1 remedy="configure each trusted proxy to append`},
		"right":                {trustingLoopback, "X-Forwarded-For", "203.0.113.7", "", ""},
		"direct":               {oneByIP, "X-Other", "x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := startTestServer(t, c.rules, withUpstream(t, hello))
			for i := range 5 { // of which the last 2 are denied
				want := http.StatusOK
				if i >= 3 {
					want = http.StatusTooManyRequests
				}
				require.Equal(t, want, fetch(t, w.proxyURL("/"), c.field, c.value).StatusCode)
			}
			metrics := fetch(t, w.apiURL("/metrics")).body
			for _, reason := range []string{untrustedPeer, noAddress} {
				count := 0
				if reason == c.reason {
					count = 5
				}
				require.Contains(t, metrics, fmt.Sprintf("sluice_forwarding_faults_total{reason=%q} %d\n", reason, count))
			}
			require.Contains(t, w.logged.String(), c.log)
			require.NotContains(t, w.logged.String(), "SECRET")
			lines := 0
			if c.log != "" {
				lines = 1
			}
			require.Equal(t, lines, strings.Count(w.logged.String(), " peer="), w.logged.String())
		})
	}
}

// TestServerWarnsThatNoProxyIsTrusted: --log-level warn shows it too.
func TestServerWarnsThatNoProxyIsTrusted(t *testing.T) {
	const message = `level=WARN msg="` + rules.NoTrustedProxy + `" rules=`
	for text, want := range map[string]int{oneByIP: 2, trustingLoopback: 0} { // at the start and at the reload
		w := startTestServer(t, text, withUpstream(t, hello))
		require.NoError(t, w.Reload(t.Context()))
		require.Eventually(t, func() bool { return strings.Count(w.logged.String(), message) == want }, testTimeout, time.Millisecond, text)
	}
	w := startTestServer(t, oneByIP)
	require.NoError(t, w.Reload(t.Context()))
	require.NotContains(t, w.logged.String(), message, "without an upstream")
}
