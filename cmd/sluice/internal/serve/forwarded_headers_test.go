package serve

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
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
				"Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6", "X_Forwarded_For", "6.6.6.6", "X-Forwarded_user", "root",
				"True-Client-Ip", "6.6.6.6", "Cf-Connecting-Ip", "6.6.6.6", "X-Client-Ip", "6.6.6.6", "X-Cluster-Client-Ip", "6.6.6.6"},
			map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "http", "X-Forwarded-User": "",
				"Forwarded": "", "X-Real-Ip": "", "X_forwarded_for": "", "X-Forwarded_user": "",
				"True-Client-Ip": "", "Cf-Connecting-Ip": "", "X-Client-Ip": "", "X-Cluster-Client-Ip": ""}, "127.0.0.1"},
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
		"Forwarded-For", "X-Forwarded", "X-Remote-Ip", "X-Remote-Addr", "Remote-Addr", "X-Originating-Ip", "X-Proxyuser-Ip",
		"X-Vercel-Forwarded-For", "Do-Connecting-Ip", "X-Sucuri-Clientip", "X-Nf-Client-Connection-Ip",
		"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override",
	} {
		h := http.Header{name: {"6.6.6.6"}}
		dropForged(h, func(string) bool { return false })
		require.NotEmpty(t, h, "a trusted proxy may say %s", name)
		dropForged(h, func(string) bool { return true })
		require.Empty(t, h, name)
	}
	for _, name := range []string{"X_forwarded_for", "X.Forwarded.For", "X-Forwarded.for", "X~Real|Ip", "X_original_url"} {
		h := http.Header{name: {"6.6.6.6"}}
		dropForged(h, func(string) bool { return false })
		require.Empty(t, h, name)
	}
	others := http.Header{"Api_key": {"a"}, "X.team": {"b"}, "X-Forward": {"c"}, "Content-Type": {"d"}}
	dropForged(others, func(string) bool { return true })
	require.Len(t, others, 4)
}
