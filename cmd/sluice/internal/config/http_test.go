// The tests of this package promise:
//
//   - A rule takes its key from the fields of a request. If a field is missing, the rule's missing decides.
//   - A file is valid, or each of its errors has a line, a field and a remedy. Parsing never panics.
//   - Each value that an error message suggests makes the file valid.
//   - A valid file makes a limiter.

package config_test

import (
	"context"
	"fmt"
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
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// parsed returns the file with this text.
func parsed(t *testing.T, text string) *config.File {
	t.Helper()
	f, err := config.Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	return f
}

// rulesOf returns the rules of a file. A body of unknown length costs 77.
func rulesOf(f *config.File) []sluice.Rule[*http.Request] { return f.HTTPRules(77, nil) }

// key returns the key of a request under a rule by these fields.
func key(t *testing.T, head, by string, r *http.Request) string {
	t.Helper()
	return rulesOf(parsed(t, head+"\nrules: [{name: a, policy: gcra 1/s, by: "+by+"}]"))[0].Key(r)
}

func TestKeys(t *testing.T) {
	request := httptest.NewRequest("GET", "http://Example.COM:8080/a//b/../c%20d/?q=1", nil)
	request.RemoteAddr = "10.0.0.1:99"
	request.SetBasicAuth("ann", "secret")
	for name, value := range map[string]string{"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.8", "X-Team": "blue", "Cookie": "session=7; other=8"} {
		request.Header.Set(name, value)
	}
	tracetest.Answers(t, "testdata/keys.txt", func(question string) string {
		head, by, _ := strings.Cut(question, "| ")
		return key(t, strings.ReplaceAll(head, "], ", "]\n"), by, request)
	})
	parameters := httptest.NewRequest("GET", "/a;x=1/b;/", nil)
	require.Equal(t, "/a/b", key(t, "", "path", parameters))
	require.Equal(t, "POST", key(t, "", "method", httptest.NewRequest("pOsT", "/", nil)))
	bare := httptest.NewRequest("GET", "/", nil)
	bare.Host, bare.RemoteAddr = "[::1]:80", "[2001:db8::1]:99"
	require.Equal(t, "2001:db8::/64", key(t, "", "ip", bare))
	require.Equal(t, "2001:db8::/48", key(t, "ipv6_bits: 48", "ip", bare))
	require.Equal(t, "::1", key(t, "", "host", bare))
	require.Equal(t, "ip:2001:db8::/64", key(t, "", "user", bare))
	bare.Host = "[fe80::1%eth0]:80"
	require.Equal(t, "fe80::1", key(t, "", "host", bare), "http.Transport removes the zone")
	bare.Host = ""
	require.Empty(t, key(t, "", "host", bare))
	for _, host := range []string{"a.example.:80", "A.example:1:2", "a.example:x", "a.example.::80"} { // some servers ignore all from the first colon
		bare.Host = host
		require.Equal(t, "a.example", key(t, "", "host", bare), host)
	}
}

// TestSpellingsOfAUserHaveOneKey: servers read Basic credentials with more spaces, without padding, in the URL alphabet, or with
// other bytes between. Otherwise a client with such credentials would not be limited as this user.
func TestSpellingsOfAUserHaveOneKey(t *testing.T) {
	for credentials, want := range map[string]string{
		"Basic YW5uOnB3dw==":       "ann",
		"bASIC  \t YW5uOnB3dw== ":  "ann",
		"Basic YW5uOnB3dw":         "ann",
		"Basic YW5uOnB3dx==":       "ann",
		"Basic YW5uOnB3d":          "ann",
		"Basic .YW5=u OnB3dw~":     "ann",
		"Basic 8J-YgHU_OnB3":       "\U0001F600u?",
		"Basic 8J+YgHU/OnB3":       "\U0001F600u?",
		"Basic YW5u":               "ip:192.0.2.1",
		"Basic OnB3":               "ip:192.0.2.1",
		"Basic":                    "ip:192.0.2.1",
		"Bearer YW5uOnB3dw==":      "ip:192.0.2.1",
		"Basic,Basic YW5uOnB3dw==": "ip:192.0.2.1",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{credentials}
		require.Equal(t, want, key(t, "", "user", r), credentials)
	}
}

func TestRequestsWithoutTheFieldOfARule(t *testing.T) {
	tracetest.Answers(t, "testdata/missing.txt", func(question string) string {
		rule, kind, _ := strings.Cut(question, " | ")
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "192.0.2.1:99"
		switch kind {
		case "full":
			r.Header.Set("X-Key", "k")
			r.Header.Set("Cookie", "id=c")
			r.SetBasicAuth("ann", "secret")
		case "empty":
			r.Header["X-Key"] = []string{"", "k"}
			r.Header.Set("Cookie", "id=")
			r.SetBasicAuth("", "secret")
		case "header":
			r.Header.Set("X-Key", "ip:192.0.2.1")
		}
		f := parsed(t, "rules: [{name: a, policy: fixedwindow 9/h, "+rule+"}]")
		d, err := sluice.MustFor(nil, rulesOf(f)...).Allow(context.Background(), r)
		require.NoError(t, err)
		switch {
		case len(d.Results) == 0:
			return "does not apply"
		case !d.Allowed:
			return "denied"
		}
		return d.Results[0].Key // the key of the request
	})
}

func TestCosts(t *testing.T) {
	f := parsed(t, "rules: [{name: one, policy: gcra 1/s}, {name: three, policy: gcra 3/s, cost: 3}, {name: size, policy: gcra 1000/s, cost: bytes}]")
	rules := rulesOf(f)
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
	tracetest.Answers(t, "testdata/applies.txt", func(question string) string {
		words := strings.Split(question, " | ")
		f := parsed(t, "rules: [{name: a, policy: gcra 1/s, "+words[0]+"}]")
		r := httptest.NewRequest(words[1], "/", nil)
		r.URL.Path = words[2]
		applies := f.Rules[0].For(words[1], r.URL)
		if policyFor := rulesOf(f)[0].PolicyFor; policyFor == nil {
			require.True(t, applies, question)
		} else {
			_, err := policyFor(r)
			require.Equal(t, map[bool]error{true: nil, false: sluice.Skip}[applies], err, question)
		}
		return fmt.Sprint(applies)
	})
}

func TestExceptExemptsRequests(t *testing.T) {
	tracetest.Answers(t, "testdata/except.txt", func(question string) string {
		words := strings.Split(question, "| ")
		f := parsed(t, "{"+words[0]+"rules: [{name: a, policy: fixedwindow 9/h, except: "+words[1]+"}]}")
		request := strings.Fields(words[2])
		u, err := url.ParseRequestURI(request[1])
		require.NoError(t, err)
		r := &http.Request{Method: request[0], URL: u, RemoteAddr: "10.0.0.1:99", Header: http.Header{
			"X-Forwarded-For": append(request[2:], "203.0.113.7")[:1], "Forwarded": {`for="[2001:db8::1]"`},
		}}
		d, err := sluice.MustFor(nil, rulesOf(f)...).Allow(context.Background(), r)
		require.NoError(t, err)
		return map[int]string{0: "exempt", 1: "limited"}[len(d.Results)]
	})
}

func TestEncodedPaths(t *testing.T) {
	tracetest.Answers(t, "testdata/paths.txt", func(question string) string {
		paths, target, _ := strings.Cut(question, " ")
		f := parsed(t, "rules: [{name: a, policy: gcra 1/s, by: path, paths: "+paths+"}]")
		u, err := url.ParseRequestURI(target)
		require.NoError(t, err)
		if !f.Rules[0].For("GET", u) {
			return ""
		}
		return rulesOf(f)[0].Key(&http.Request{URL: u})
	})
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
	tracetest.Answers(t, "testdata/fields.txt", func(by string) string {
		_, err := config.ParseFields(by)
		require.Error(t, err)
		return err.Error()
	})
}

func TestLimitsFilesOfThePageAboutKeysAreValid(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/keys.md")
	require.NoError(t, err)
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, files)
	for _, file := range files {
		parsed(t, string(file[1]))
	}
}

// costAfter returns what a request costs under a rule in the end, and the problems that are reported.
func costAfter(t *testing.T, rule string, status int, h http.Header) (cost int64, problems []string) {
	t.Helper()
	f := parsed(t, "rules: [{name: a, policy: gcra 1000/s, "+rule+"}]")
	require.True(t, f.NeedsResponse())
	rules := f.HTTPRules(0, func(r *config.Rule, problem string) { problems = append(problems, r.Name+": "+problem) })
	r := httptest.NewRequest("POST", "/", http.NoBody)
	r.ContentLength = 70
	require.NotZero(t, rules[0].Cost(r), "the estimate")
	require.Empty(t, problems)
	return rules[0].Cost(httplimit.WithResponse(r, httplimit.Response{Status: status, Header: h})), problems
}

func TestCountChargesOnlySomeStatuses(t *testing.T) {
	for rule, costs := range map[string]map[int]int64{
		"count: [401, 403, 5xx]":                {200: 0, 400: 0, 401: 1, 402: 0, 403: 1, 404: 0, 499: 0, 500: 1, 599: 1},
		"count: 401, cost: 20":                  {200: 0, 401: 20},
		"count: 2xx, cost: bytes":               {199: 0, 200: 70, 299: 70, 300: 0},
		"count: [100, 599]":                     {100: 1, 101: 0, 599: 1},
		"missing: deny, by: user, count: [401]": {401: 1},
	} {
		for status, want := range costs {
			cost, _ := costAfter(t, rule, status, nil)
			require.Equal(t, want, cost, "%s: %d", rule, status)
		}
	}
	require.False(t, parsed(t, "rules: [{name: a, policy: gcra 1/s, cost: 1}]").NeedsResponse())
}

func TestActualCostIsInAHeaderOfTheResponse(t *testing.T) {
	const rule = "cost: {estimate: 500, actual: header:x-tokens-used}"
	tracetest.Answers(t, "testdata/costs.txt", func(fields string) string {
		h := http.Header{}
		for field := range strings.SplitSeq(fields, " | ") {
			if name, value, found := strings.Cut(field, ": "); found {
				h[name] = append(h[name], value)
			}
		}
		cost, problems := costAfter(t, rule, 200, h)
		return fmt.Sprint(cost, " ", strings.Join(problems, ", "))
	})
	cost, problems := costAfter(t, rule+", count: 2xx", 502, nil)
	require.Zero(t, cost)
	require.Empty(t, problems, "a response that is not charged need not report its cost")
}
