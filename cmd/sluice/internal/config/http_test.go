// The tests of this package promise:
//
//   - A rule takes its key from the fields of a request. If a field is missing, the rule's missing decides.
//   - A file is valid, or each of its errors has a line, a field and a remedy. Parsing never panics.
//   - Each value that an error message suggests makes the file valid.
//   - A valid file makes a limiter.

package config_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// key returns the key of a request under a rule by these fields.
func key(t *testing.T, head, by string, r *http.Request) string {
	t.Helper()
	f, err := config.Parse("limits.yaml", []byte(head+"\nrules: [{name: a, policy: gcra 1/s, by: "+by+"}]"))
	require.NoError(t, err)
	rules, err := f.HTTPRules(0, nil)
	require.NoError(t, err)
	return rules[0].Key(r)
}

func TestKeys(t *testing.T) {
	const trusting = "trusted: [10.0.0.0/8]"
	request := func() *http.Request {
		r := httptest.NewRequest("GET", "http://Example.COM:8080/a//b/../c%20d/?q=1", nil)
		r.RemoteAddr = "10.0.0.1:99"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.Header.Set("Forwarded", "for=203.0.113.8")
		r.Header.Set("X-Team", "blue")
		r.Header.Set("Cookie", "session=7; other=8")
		r.SetBasicAuth("ann", "secret")
		return r
	}
	for _, c := range []struct{ head, by, want string }{
		{"", "ip", "10.0.0.1"},
		{trusting, "ip", "203.0.113.7"},
		{trusting + "\nforwarded: true", "ip", "203.0.113.8"},
		{"", "user", "ann"},
		{"", "method", "GET"},
		{"", "path", "/a/c d"},
		{"", "host", "example.com"},
		{"", "header:x-team", "blue"},
		{"", "cookie:session", "7"},
		{"", "[cookie:session, header: x-team]", `"7" "blue"`},
		{trusting, "[ip, path]", `"203.0.113.7" "/a/c d"`},
		{trusting, "ip + user", `"203.0.113.7" "ann"`},
	} {
		require.Equal(t, c.want, key(t, c.head, c.by, request()), c)
	}
	parameters := httptest.NewRequest("GET", "/a;x=1/b;/", nil)
	require.Equal(t, "/a/b", key(t, "", "path", parameters))
	require.Equal(t, "POST", key(t, "", "method", httptest.NewRequest("pOsT", "/", nil)))
	bare := httptest.NewRequest("GET", "/", nil)
	bare.Host, bare.RemoteAddr = "[::1]:80", "[2001:db8::1]:99"
	require.Equal(t, "2001:db8::/64", key(t, "", "ip", bare))
	require.Equal(t, "2001:db8::/48", key(t, "ipv6_bits: 48", "ip", bare))
	require.Equal(t, "::1", key(t, "", "host", bare))
	require.Equal(t, "ip:2001:db8::/64", key(t, "", "user", bare))
	for host, want := range map[string]string{"a.example.": "a.example", "A:1": "a", "::1": "::1", "": "", "[::1]": "::1"} {
		bare.Host = host
		require.Equal(t, want, key(t, "", "host", bare), host)
	}
}

func TestARuleWithoutFieldsHasOneKey(t *testing.T) {
	for _, by := range []string{"", ", by: everything"} {
		f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: gcra 1/s"+by+"}]"))
		require.NoError(t, err)
		rules, err := f.HTTPRules(0, nil)
		require.NoError(t, err)
		require.Nil(t, rules[0].Key)
		require.Equal(t, "everything", f.Rules[0].ByString())
	}
}

// decided returns the key of a request under a rule, or that the rule does not apply, or that it denies.
func decided(t *testing.T, rule string, r *http.Request) string {
	t.Helper()
	f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: fixedwindow 9/h, "+rule+"}]"))
	require.NoError(t, err)
	rules, err := f.HTTPRules(0, nil)
	require.NoError(t, err)
	limiter, err := sluice.For(nil, rules...)
	require.NoError(t, err)
	d, err := limiter.Allow(context.Background(), r)
	require.NoError(t, err)
	require.Equal(t, len(d.Results) > 0, f.Rules[0].Applies(r))
	switch {
	case len(d.Results) == 0:
		return "does not apply"
	case !d.Allowed:
		return "denied"
	}
	return d.Results[0].Key
}

func TestRequestsWithoutTheFieldOfARule(t *testing.T) {
	bare := func() *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "192.0.2.1:99"
		return r
	}
	full := bare()
	full.Header.Set("X-Key", "k")
	full.Header.Set("Cookie", "id=c")
	full.SetBasicAuth("ann", "secret")
	empty := bare()
	empty.Header["X-Key"] = []string{"", "k"}
	empty.Header.Set("Cookie", "id=")
	empty.SetBasicAuth("", "secret")
	for by, found := range map[string]string{"header:X-Key": "k", "cookie:id": "c", "user": "ann"} {
		for missing, want := range map[string]string{
			"":                 "ip:192.0.2.1",
			", missing: ip":    "ip:192.0.2.1",
			", missing: share": "",
			", missing: skip":  "does not apply",
			", missing: deny":  "denied",
		} {
			require.Equal(t, want, decided(t, "by: "+by+missing, bare()), by+missing)
			require.Equal(t, want, decided(t, "by: "+by+missing, empty), by+missing)
			require.Equal(t, found, decided(t, "by: "+by+missing, full), by+missing)
		}
	}
	half := bare()
	half.Header.Set("X-Key", "ip:192.0.2.1")
	for missing, want := range map[string]string{
		"ip":    `"\"ip:192.0.2.1\"" "ip:192.0.2.1"`,
		"share": `"ip:192.0.2.1" ""`,
		"skip":  "does not apply",
		"deny":  "denied",
	} {
		require.Equal(t, want, decided(t, "by: [header:X-Key, cookie:id], missing: "+missing, half), missing)
	}
	for _, missing := range []string{"skip", "deny"} {
		require.Equal(t, "does not apply", decided(t, "by: header:X-Key, paths: /login, missing: "+missing, bare()))
		require.Equal(t, "does not apply", decided(t, "by: header:X-Key, methods: PUT, missing: "+missing, bare()))
	}
	require.Equal(t, "denied", decided(t, "by: header:X-Key, cost: bytes, missing: deny", bare()), "though it has no bytes")
}

func TestCosts(t *testing.T) {
	f, err := config.Parse("limits.yaml", []byte(`
rules:
  - {name: one, policy: gcra 1/s}
  - {name: three, policy: gcra 3/s, cost: 3}
  - {name: size, policy: gcra 1000/s, cost: bytes}
`))
	require.NoError(t, err)
	rules, err := f.HTTPRules(77, nil)
	require.NoError(t, err)
	sized := httptest.NewRequest("POST", "/", strings.NewReader("12345"))
	unsized := httptest.NewRequest("POST", "/", nil)
	unsized.ContentLength = -1
	require.Nil(t, rules[0].Cost)
	require.EqualValues(t, 3, rules[1].Cost(sized))
	require.EqualValues(t, 5, rules[2].Cost(sized))
	require.EqualValues(t, 77, rules[2].Cost(unsized))
	require.Equal(t, config.Cost{Bytes: true}, f.Rules[2].Cost)
}

func TestARuleIsForSomeRequests(t *testing.T) {
	parse := func(filter string) config.Rule {
		f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: gcra 1/s, "+filter+"}]"))
		require.NoError(t, err)
		return f.Rules[0]
	}
	for _, c := range []struct {
		filter, method, path string
		want                 bool
	}{
		{"shadow: false", "GET", "/", true},
		{"methods: GET", "GET", "/x", true},
		{"methods: GET", "HEAD", "/x", true},
		{"methods: HEAD", "GET", "/x", false},
		{"methods: GET", "Head", "/x", true},
		{"methods: POST", "pOsT", "/x", true},
		{"methods: post", "POST", "/x", true},
		{"paths: /login", "POST", "/login", true},
		{"paths: /login", "POST", "/login/", true},
		{"paths: /login", "POST", "//login", true},
		{"paths: /login", "POST", "/a/../login", true},
		{"paths: /login", "POST", "/logins", false},
		{"paths: /login", "POST", "/login/now", false},
		{"paths: /login", "POST", "/Login", false},
		{"paths: /login", "POST", `\login`, false},
		{"paths: /login", "POST", "/login;x=1", true},
		{"paths: /login", "POST", "/a;x=1/..;/login;/", true},
		{"paths: /api/*", "GET", "/api;x=1/a", true},
		{"paths: /api/*", "GET", "/api/..;/x", true},
		{"paths: /api/*", "GET", "/api", true},
		{"paths: /api/*", "GET", "/api/a/b", true},
		{"paths: /api/*", "GET", "/apiary", false},
		{"paths: /api/*", "GET", "/api/../x", true},
		{"paths: /x", "GET", "/api/../x", true},
		{"paths: /*", "GET", "/", true},
		{"paths: /*", "OPTIONS", "*", true},
		{"paths: /", "GET", "", true},
		{"paths: [/a, /b/*]", "GET", "/b/c", true},
		{"methods: POST, paths: [/a, /b/*]", "GET", "/b/c", false},
	} {
		rule := parse(c.filter)
		require.Equal(t, c.want, rule.For(c.method, &url.URL{Path: c.path}), c)

		rules, err := (&config.File{Rules: []config.Rule{rule}}).HTTPRules(0, nil)
		require.NoError(t, err)
		r := httptest.NewRequest(c.method, "/", nil)
		r.URL.Path = c.path
		if rules[0].PolicyFor == nil {
			require.True(t, c.want, c)
			continue
		}
		_, err = rules[0].PolicyFor(r)
		require.Equal(t, c.want, err == nil, c)
		require.True(t, c.want || err == sluice.Skip, c)
	}
}

// TestEncodedPaths: servers decode paths differently. A rule applies if it applies to one of the decoded paths.
func TestEncodedPaths(t *testing.T) {
	for _, c := range []struct {
		paths, target, want string // want is the key; "" if the rule is not for it
	}{
		{"/account/*", "/account/1", "/account/1"},
		{"/account/*", "/%61ccount/..%2f1", "/account/..%2F1"},
		{"/account/*", "/account/1%2f..%2F..", "/account/1%2F..%2F.."},
		{"/account/*", "/account/..;/1%2f..%2f..", "/account"},
		{"/account/*", "/account;x=1/..%2f1", "/account/..%2F1"},
		{"/account/*", "/x%2f1/../account/1", "/account/1"},
		{"/account/*", "/account%2f..%2f1", ""},
		{"/search/*", "/search/%2e%2e%2fdogs", "/search/..%2Fdogs"},
		{"/search/*", "/search/%2e%2e/dogs", "/search/../dogs"},
		{"/search/*", "/search/../dogs", "/search/../dogs"},
		{"/search/*", "/search/%252e%252e%252fdogs", "/search/%2e%2e%2fdogs"},
		{"/search/*", "/search/%25zz/../../dogs", "/search/%zz/../../dogs"},
		{"/dogs", "/search/%2e%2e%2fdogs", "/dogs"},
		{"/a/dogs", "/a%2fb/%2e%2e/a/dogs", "/a/dogs"},
		{"/a.b/*", "/a%2eb/%2e%2e%2fdogs", "/a.b/..%2Fdogs"},
		{"/login", "/1%2fx/../login", "/login"},
		{"/login", "/x%2flogin", ""},
		{"/café/*", "/caf%c3%a9/..%2fx", "/café/..%2Fx"},
	} {
		f, err := config.Parse("limits.yaml", []byte("rules: [{name: a, policy: gcra 1/s, by: path, paths: "+c.paths+"}]"))
		require.NoError(t, err)
		rules, err := f.HTTPRules(0, nil)
		require.NoError(t, err)
		u, err := url.ParseRequestURI(c.target)
		require.NoError(t, err)
		require.Equal(t, c.want != "", f.Rules[0].For("GET", u), c)
		if c.want != "" {
			require.Equal(t, c.want, rules[0].Key(&http.Request{URL: u}), c)
		}
	}
}

func TestFieldsAreReadBack(t *testing.T) {
	for _, by := range []string{"ip", "user+path", "method+host", "header:X-Team+cookie:session", "everything"} {
		fields, err := config.ParseFields(by)
		require.NoError(t, err)
		require.Equal(t, by, (&config.Rule{By: fields}).ByString())
	}
	fields, err := config.ParseFields(" ip + header:x-team ")
	require.NoError(t, err)
	require.Equal(t, []config.Field{{Kind: config.IP}, {Kind: config.Header, Name: "X-Team"}}, fields)
	for by, want := range map[string]string{
		"":        `no field ""; want ip, user, method, path, host, header:NAME or cookie:NAME, or several joined by +`,
		"pth":     "did you mean path?",
		"ip+ip":   "ip is there twice",
		"cookie:": `want cookie:NAME, such as cookie:session`,
		"+ip":     `"+ip": a field is missing before or after a +; write for instance ip+path`,
	} {
		_, err := config.ParseFields(by)
		require.ErrorContains(t, err, want)
		require.Equal(t, strings.Contains(want, "no field") || strings.Contains(want, "did you mean"), strings.Contains(err.Error(), "or several joined by +"), by)
	}
}

func TestLimitsFilesOfThePageAboutKeysAreValid(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/keys.md")
	require.NoError(t, err)
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, files)
	for _, file := range files {
		_, err := config.Parse("limits.yaml", file[1])
		require.NoError(t, err)
	}
}
