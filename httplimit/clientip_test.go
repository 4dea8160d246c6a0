// These tests promise that a client cannot forge its address, and that the other keys are what their
// comments say.
package httplimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
)

func prefixes(list ...string) (found []netip.Prefix) {
	for _, p := range list {
		found = append(found, netip.MustParsePrefix(p))
	}
	return found
}

// behind returns the key of a server behind its own proxies, also on a unix socket.
func behind(t *testing.T, c httplimit.ClientIP) func(*http.Request) string {
	t.Helper()
	c.Trusted, c.TrustUnix = prefixes("10.0.0.0/8", "fd00::/8"), true
	key, err := c.Key()
	require.NoError(t, err)
	return key
}

// from is a request of a peer, with lines of a field.
func from(peer, field string, lines ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	if lines != nil {
		r.Header[field] = lines
	}
	return r
}

// onUnix returns the request as if it came over a unix socket.
func onUnix(r *http.Request) *http.Request {
	local := &net.UnixAddr{Name: "/run/server.sock", Net: "unix"}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

const xff = "X-Forwarded-For"

func TestWithoutProxiesThePeerIsTheClient(t *testing.T) {
	key, err := httplimit.ClientIP{}.Key()
	require.NoError(t, err)
	for _, test := range []struct{ peer, want string }{
		{"192.0.2.1:5001", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:5001", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:5001", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:f::]:5002", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:5001", "fe80::/64"},
		{"2001:db8::1", "2001:db8::/64"},
		{"0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:80:80", "192.0.2.1:80:80"},
		{"[::1", "[::1"},
		{"[192.0.2.1]:80", "[192.0.2.1]:80"},
		{"[64:ff9b::c000:201]:5001", "192.0.2.1"},
		{"[64:ff9b::198.51.100.7%eth0]:5001", "198.51.100.7"},
		{"[64:ff9b::a00:9]:5001", "64:ff9b::/64"},
		{"[64:ff9b::127.0.0.1]:5001", "64:ff9b::/64"},
		{"[64:ff9b:1::c000:201]:5001", "64:ff9b:1::/64"},
		{"[64:ff9b::1:c000:201]:5001", "64:ff9b::/64"},
		{"@", "@"},
		{"", ""},
		{"localhost:80", "localhost:80"},
	} {
		require.Equal(t, test.want, key(from(test.peer, xff, "203.0.113.9")), test.peer)
	}
}

// A NAT64 address is not trusted if the IPv4 address in it is.
func TestTranslatedAddressesAreNotTrusted(t *testing.T) {
	key, err := httplimit.ClientIP{Trusted: prefixes("198.51.100.0/24", "10.0.0.0/8")}.Key()
	require.NoError(t, err)
	require.Equal(t, "198.51.100.7", key(from("[64:ff9b::198.51.100.7]:1", xff, "203.0.113.9")))
	require.Equal(t, "198.51.100.7", key(from("10.0.0.1:1", xff, "203.0.113.9, 64:ff9b::198.51.100.7")))
}

func TestIPv6BitsIsThePrefixLength(t *testing.T) {
	for bits, want := range map[int]string{32: "2001:db8::/32", 48: "2001:db8:1::/48", 56: "2001:db8:1::/56", 128: "2001:db8:1:2:3:4:5:6/128"} {
		key, err := httplimit.ClientIP{IPv6Bits: bits}.Key()
		require.NoError(t, err)
		require.Equal(t, want, key(from("[2001:db8:1:2:3:4:5:6]:1", xff)))
	}
	for _, bits := range []int{-1, 1, 31, 129} {
		_, err := httplimit.ClientIP{IPv6Bits: bits}.Key()
		require.ErrorContains(t, err, "IPv6Bits must be from 32 to 128")
	}
	_, err := httplimit.ClientIP{Trusted: make([]netip.Prefix, 1)}.Key()
	require.ErrorContains(t, err, "invalid prefix")
}

// forgedFields are texts that an attacker can write before the proxy adds the real address.
func forgedFields(victim string) []string {
	long := strings.Repeat(victim+", ", 100_000/len(victim+", "))
	return []string{
		"", victim, victim + ":80", "10.0.0.9", "10.0.0.9, " + victim, victim + ", 10.0.0.9",
		"127.0.0.1", "::1", "[::1]:80", "::ffff:198.51.100.7", "[::ffff:198.51.100.7]:443", "fe80::1%eth0", "fd00::1%10.0.0.1",
		"unknown", "_hidden", "localhost", "192.0.2", "192.0.2.256", "0x7f000001", "010.0.0.1", "192.0.2.1/24",
		"'; drop table", "\"", "\\", "\"unclosed", ",,,,", " , ,", ";", "=", "\x00\xff", "for=" + victim,
		"for=\"" + victim, `for="[::1]`, `for="x\`, "for=" + victim + ";", "for=" + victim + ", for=10.0.0.9", "For=\"unclosed, for=" + victim,
		long, strings.Repeat("x", 100_000), strings.Repeat(",", 100_000), strings.Repeat("\"", 100_000), strings.Repeat("[", 100_000),
		strings.Repeat("10.0.0.9, ", 10_000), strings.Repeat("for=", 25_000),
		"[2001:db8:7::7]", "2001:db8:7::7%eth0", "[fd00::1%25eth0]:80", "::ffff:10.0.0.9", "::ffff:a00:9", "64:ff9b::a00:9", "10.0.0.9:0", "10.0.0.9:99999", "[10.0.0.9]:80",
		`for="[fd00::9]"`, `for="[2001:db8:7::7%eth0]:80"`, `for="10.0.0.9:80"`, "for=::ffff:10.0.0.9", "for=unknown", "for=_gateway", "proto=https;by=10.0.0.9",
	}
}

// The attacker sends a forgery, and the proxy adds the attacker's address. The key must be
// the attacker's, never that of the victim, 198.51.100.7.
func TestForgedFieldsChangeNothing(t *testing.T) {
	requireKeyOfAttacker(t, "203.0.113.6", "203.0.113.6", "203.0.113.6")
	requireKeyOfAttacker(t, "2001:db8:6::6", "[2001:db8:6::6]", "2001:db8:6::/64")
}

func requireKeyOfAttacker(t *testing.T, attacker, host, want string) {
	const victim = "198.51.100.7"
	for field, test := range map[string]struct {
		key             func(*http.Request) string
		appended, proxy string
	}{
		xff: {behind(t, httplimit.ClientIP{}), attacker, "10.0.0.2"},
		"Forwarded": {behind(t, httplimit.ClientIP{Forwarded: true}),
			`for="` + host + `:4711";proto=https;host="a, for=198.51.100.7;b=\",\\"`, `by=x;for=10.0.0.2`},
	} {
		for _, forgery := range forgedFields(victim) {
			for name, r := range map[string]*http.Request{
				"appended":           from("10.0.0.1:80", field, forgery+", "+test.appended),
				"several lines":      from("10.0.0.1:80", field, forgery, forgery, forgery+", "+test.appended),
				"empty elements":     from("10.0.0.1:80", field, forgery+", "+test.appended+",, ,"+test.proxy+",", ""),
				"two proxies, lines": from("[fd00::1]:80", field, forgery, test.appended, test.proxy),
				"no proxy":           from(host+":5001", field, forgery),
				"a unix socket":      onUnix(from("@", field, forgery, test.appended)),
			} {
				for _, other := range []string{xff, "Forwarded", "X-Real-Ip", "True-Client-Ip"} {
					if other != field {
						r.Header[other] = []string{victim}
					}
				}
				require.Equal(t, want, test.key(r), "%s: %s: %.100q", field, name, forgery)
			}
		}
	}
}

func TestFieldsOfTrustedProxies(t *testing.T) {
	for _, test := range []struct {
		name, peer, want string
		lines            []string
	}{
		{"no field", "10.0.0.1:80", "10.0.0.1", nil},
		{"a mapped peer is trusted as the IPv4 address that it is", "[::ffff:10.0.0.1]:80", "192.0.2.1", []string{"192.0.2.1"}},
		{"a peer with a zone", "[fd00::1%eth0]:80", "192.0.2.1", []string{"192.0.2.1"}},
		{"a mapped client", "10.0.0.1:80", "192.0.2.1", []string{"::ffff:192.0.2.1"}},
		{"a mapped proxy", "10.0.0.1:80", "192.0.2.1", []string{"192.0.2.1, ::ffff:10.0.0.2"}},
		{"a port", "10.0.0.1:80", "192.0.2.1", []string{"192.0.2.1:5001"}},
		{"IPv6", "10.0.0.1:80", "2001:db8::/64", []string{"2001:db8::1"}},
		{"IPv6 in brackets", "10.0.0.1:80", "2001:db8::/64", []string{"[2001:db8::1]"}},
		{"IPv6 with a port", "10.0.0.1:80", "2001:db8::/64", []string{"[2001:db8::1]:5001"}},
		{"IPv6 with a zone", "10.0.0.1:80", "fe80::/64", []string{"fe80::1%eth0"}},
		{"IPv4 in brackets is no address", "10.0.0.1:80", "10.0.0.1", []string{"[192.0.2.1]"}},
		{"white space", "10.0.0.1:80", "192.0.2.1", []string{" \t192.0.2.1 ,\t10.0.0.2\t "}},
		{"all trusted", "10.0.0.1:80", "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"an element that is no address ends the search at the hop to its right", "10.0.0.1:80", "10.0.0.2", []string{"192.0.2.1, unknown, 10.0.0.2"}},
		{"empty elements", "10.0.0.1:80", "192.0.2.1", []string{"198.51.100.7,192.0.2.1,, \t,10.0.0.2,", "", " "}},
		{"only empty elements", "10.0.0.1:80", "10.0.0.1", []string{",,", ","}},
		{"100 kB of one element", "10.0.0.1:80", "10.0.0.1", []string{strings.Repeat("1", 100_000)}},
		{"100 kB of zone", "10.0.0.1:80", "10.0.0.1", []string{"fe80::1%" + strings.Repeat("z", 100_000)}},
	} {
		require.Equal(t, test.want, behind(t, httplimit.ClientIP{})(from(test.peer, xff, test.lines...)), test.name)
	}
	for line, want := range map[string]string{
		"for=192.0.2.1":            "192.0.2.1",
		"for=192.0.2.1:80":         "192.0.2.1", // not quoted as it should be
		`For="[2001:db8::1]:4711"`: "2001:db8::/64",
		`by=10.0.0.1;host="x;y\"=";FOR="192.0.2.1";proto=http`:    "192.0.2.1",
		`for=198.51.100.7, for=192.0.2.1;by="_x",, for=10.0.0.2,`: "192.0.2.1",
		`for=192.0.2.1;host="x, for=198.51.100.7;a=\""`:           "192.0.2.1",
		";;proto=http;;for=192.0.2.1;":                            "192.0.2.1",
		"for=192.0.2.1;for=192.0.2.2":                             "10.0.0.1",
		"by=192.0.2.1":                                            "10.0.0.1",
		"for=unknown":                                             "10.0.0.1",
		`for="_gazonk"`:                                           "10.0.0.1",
		"for=192.0.2.1, ;;":                                       "10.0.0.1",
		"for=192.0.2.1;host=;":                                    "10.0.0.1",
		"for=192.0.2.1;host":                                      "10.0.0.1",
		"for=192.0.2.1;=host":                                     "10.0.0.1",
		"for=192.0.2.1;a b=c":                                     "10.0.0.1",
		`for="192.0.2.1`:                                          "10.0.0.1",
		`for="192.0.2.1\`:                                         "10.0.0.1",
		`for="192.0.2.1"0`:                                        "10.0.0.1",
		`for="192.0.2.1\""`:                                       "10.0.0.1",
		`for=192.0.2.1;host="x"", for=10.0.0.2"`:                  "10.0.0.1",
		"for=" + strings.Repeat("1", 100_000):                     "10.0.0.1",
	} {
		require.Equal(t, want, behind(t, httplimit.ClientIP{Forwarded: true})(from("10.0.0.1:80", "Forwarded", line)), "%.100q", line)
	}
}

// A client of a unix socket can bind its own end to any name.
func TestUnixPeersHaveOneKey(t *testing.T) {
	for _, c := range []httplimit.ClientIP{{}, {Trusted: prefixes("10.0.0.0/8", "0.0.0.0/0")}} {
		key, err := c.Key()
		require.NoError(t, err)
		for _, peer := range []string{"@", "", "10.0.0.1:80", "[::1]:80", "192.0.2.1", "/tmp/peer", "@peer"} {
			require.Equal(t, "unix", key(onUnix(from(peer, xff, "192.0.2.1"))), "not trusted")
		}
	}
	key := behind(t, httplimit.ClientIP{})
	for _, test := range []struct {
		want  string
		lines []string
	}{
		{"192.0.2.1", []string{"192.0.2.1"}},
		{"192.0.2.1", []string{"198.51.100.7, 192.0.2.1, 10.0.0.2"}},
		{"2001:db8::/64", []string{"198.51.100.7", "2001:db8::1"}},
		{"10.0.0.2", []string{"10.0.0.2"}},
		{"unix", nil}, {"unix", []string{""}}, {"unix", []string{"192.0.2.1, unknown"}},
	} {
		require.Equal(t, test.want, key(onUnix(from("@", xff, test.lines...))), "%q", test.lines)
	}
	require.Equal(t, "192.0.2.1", key(from("192.0.2.1:80", xff, "198.51.100.7")), "TrustUnix does not trust peers with addresses")
	require.Equal(t, "@", key(from("@", xff, "198.51.100.7")), "a request without the server's address")
}

func TestTrustedPrefixCanBeIPv4Mapped(t *testing.T) {
	key, err := httplimit.ClientIP{Trusted: prefixes("::ffff:10.0.0.0/104")}.Key()
	require.NoError(t, err)
	require.Equal(t, "192.0.2.1", key(from("10.1.2.3:80", xff, "192.0.2.1")))
	require.Equal(t, "11.0.0.1", key(from("11.0.0.1:80", xff, "192.0.2.1")))
}

func TestKeysReadTheRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "http://example.com:8080/orders/7", nil)
	r.Header.Add("X-Api-Key", "k1")
	r.Header.Add("X-Api-Key", "k2")
	r.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
	var pattern, id, other string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(_ http.ResponseWriter, r *http.Request) {
		pattern, id = httplimit.KeyByPattern().OrShare()(r), httplimit.KeyByPathValue("id").OrShare()(r)
		other = httplimit.KeyByPathValue("other").OrShare()(r)
	})
	mux.ServeHTTP(httptest.NewRecorder(), r)

	require.Equal(t, "GET /orders/{id}", pattern)
	require.Equal(t, "7", id)
	require.Equal(t, "", other)
	require.Equal(t, "k1", httplimit.KeyByHeader("x-api-key").OrShare()(r))
	require.Equal(t, "", httplimit.KeyByHeader("X-Missing").OrShare()(r))
	require.Equal(t, "example.com:8080", httplimit.KeyByHeader("host").OrShare()(r))
	require.Equal(t, "s1", httplimit.KeyByCookie("session").OrShare()(r))
	require.Equal(t, "", httplimit.KeyByCookie("missing").OrShare()(r))
	require.Equal(t, "example.com:8080", httplimit.KeyByHost(r))
}

func TestSpellingsOfAHostHaveOneKey(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.com/": "example.com", "http://Example.COM/": "example.com", "http://example.com./": "example.com",
		"http://example.com:80/": "example.com", "HTTPS://example.com.:443/": "example.com", "http://example.com:/": "example.com",
		"http://example.com:443/": "example.com:443", "https://example.com:80/": "example.com:80", "http://example.com.:8080/": "example.com:8080",
		"http://[2001:DB8::1]:80/": "[2001:db8::1]", "http://[2001:db8::1]/": "[2001:db8::1]", "http://[::80]:81/": "[::80]:81",
	} {
		r, err := http.NewRequest("GET", url, nil)
		require.NoError(t, err)
		require.Equal(t, want, httplimit.KeyByHost(r), url)
	}
	for host, want := range map[string]string{"Example.com.": "example.com", "example.com:80": "example.com:80", "": "", ":": "", ".": ""} {
		require.Equal(t, want, httplimit.KeyByHost(&http.Request{Host: host}), "on a server: %q", host)
	}
}

func TestJoinedKeysAreDistinct(t *testing.T) {
	joined := httplimit.JoinKeys(httplimit.KeyByHeader("A").OrShare(), httplimit.KeyByHeader("B").OrShare())
	values := []string{"", " ", "\"", "\\", "\" \"", "\\\"", "a", "a b", "\xff", "\\xff", "\ufffd"}
	seen := make(map[string][2]string)
	for _, a := range values {
		for _, b := range values {
			key := joined(&http.Request{Header: http.Header{"A": {a}, "B": {b}}})
			require.NotContains(t, seen, key, "%q %q", a, b)
			seen[key] = [2]string{a, b}
		}
	}
	require.PanicsWithValue(t, "httplimit: JoinKeys needs at least one key", func() { httplimit.JoinKeys() })
	require.PanicsWithValue(t, "httplimit: key 1 of JoinKeys must not be nil", func() { httplimit.JoinKeys(httplimit.KeyByHost, nil) })
	require.Equal(t, `"a" "a b"`, joined(&http.Request{Header: http.Header{"A": {"a"}, "B": {"a b"}}}))
}

func TestCheckReportsDoubtfulKeys(t *testing.T) {
	trusting := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}
	forwarded := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8"), Forwarded: true}
	for name, test := range map[string]struct {
		client httplimit.ClientIP
		r      *http.Request
		want   error
	}{
		"no proxy":                       {httplimit.ClientIP{}, from("192.0.2.1:9", xff), nil},
		"nobody is trusted":              {httplimit.ClientIP{}, from("192.0.2.1:9", xff, "203.0.113.7"), httplimit.ErrUntrustedPeer},
		"nobody is trusted, Forwarded":   {httplimit.ClientIP{}, from("192.0.2.1:9", "Forwarded", "for=203.0.113.7"), httplimit.ErrUntrustedPeer},
		"another peer":                   {trusting, from("192.0.2.1:9", xff, "203.0.113.7"), httplimit.ErrUntrustedPeer},
		"another peer without the field": {trusting, from("192.0.2.1:9", xff), nil},
		"a peer that is no address":      {trusting, from("pipe", xff, "203.0.113.7"), httplimit.ErrUntrustedPeer},
		"no peer":                        {trusting, from("", xff), httplimit.ErrNoAddress},
		"a peer without an address":      {httplimit.ClientIP{}, from(":0", xff), httplimit.ErrNoAddress},
		"a peer with a name":             {httplimit.ClientIP{}, from("localhost:9", xff), httplimit.ErrNoAddress},
		"a socket without the field":     {trusting, onUnix(from("@", xff)), nil},
		"a client":                       {trusting, from("10.0.0.1:9", xff, "203.0.113.7"), nil},
		"garbage left of the client":     {trusting, from("10.0.0.1:9", xff, "garbage, 203.0.113.7"), nil},
		"garbage":                        {trusting, from("10.0.0.1:9", xff, "203.0.113.7, garbage"), httplimit.ErrForwarding},
		"garbage behind a proxy":         {trusting, from("10.0.0.1:9", xff, "garbage, 10.0.0.2"), httplimit.ErrForwarding},
		"nothing but proxies":            {trusting, from("10.0.0.1:9", xff, "10.0.0.3, 10.0.0.2"), nil},
		"no field":                       {trusting, from("10.0.0.1:9", xff), nil},
		"an unknown client":              {forwarded, from("10.0.0.1:9", "Forwarded", "for=unknown"), httplimit.ErrForwarding},
		"a known client":                 {forwarded, from("10.0.0.1:9", "Forwarded", "for=203.0.113.7"), nil},
		"a socket":                       {trusting, onUnix(from("@", xff, "203.0.113.7")), httplimit.ErrUntrustedPeer},
		"a trusted socket":               {httplimit.ClientIP{TrustUnix: true}, onUnix(from("@", xff, "203.0.113.7")), nil},
		"garbage by a trusted socket":    {httplimit.ClientIP{TrustUnix: true}, onUnix(from("@", xff, "garbage")), httplimit.ErrForwarding},
	} {
		check, err := test.client.Check()
		require.NoError(t, err)
		require.Equal(t, test.want, check(test.r), name)
	}
	_, err := httplimit.ClientIP{IPv6Bits: 1}.Check()
	require.ErrorContains(t, err, "IPv6Bits")
}

// Whatever a client sends before the proxy adds its address, the key is the client's.
func FuzzForgedFields(f *testing.F) {
	for _, forgery := range []string{"", "198.51.100.7", "10.0.0.9, ", `for="`, `for="x\`, `";for=198.51.100.7`, "\x00", ",\",", `\\"`} {
		f.Add(forgery, forgery)
	}
	f.Fuzz(func(t *testing.T, line, start string) {
		plain, forwarded := behind(t, httplimit.ClientIP{}), behind(t, httplimit.ClientIP{Forwarded: true})
		require.Equal(t, "203.0.113.6", plain(from("10.0.0.1:80", xff, line, start+",203.0.113.6, 10.0.0.2")))
		require.Equal(t, "203.0.113.6", forwarded(from("10.0.0.1:80", "Forwarded", line, start+`,for=203.0.113.6;host="a,\"b",for="[fd00::1]:80"`)))
	})
}

// listenUnix serves a handler on a unix socket, and returns a client for it.
func listenUnix(t *testing.T, h http.Handler) *http.Transport {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // a socket's path has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "http")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(h)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// Over a real unix socket: a proxy's clients have limits of their own.
func TestKeyOverAUnixSocket(t *testing.T) {
	key, err := httplimit.ClientIP{TrustUnix: true}.Key()
	require.NoError(t, err)
	client := http.Client{Transport: listenUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, key(r)) }))}
	for forwarded, want := range map[string]string{"": "unix", "198.51.100.7, 203.0.113.6": "203.0.113.6"} {
		r, err := http.NewRequest(http.MethodGet, "http://server", nil)
		require.NoError(t, err)
		r.Header.Set(xff, forwarded)
		response, err := client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, string(text))
	}
}
