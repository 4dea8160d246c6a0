package replay

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestRulesOfAFileAreReplayed(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "rules.svg")
	clitest.Golden(t, "rules.txt", clitest.Ok(t, "", "replay", "--config", clitest.ExampleConfig, "--top", "3", "--out", picture))
	for _, word := range []string{"under each rule", "rules of limits.yaml", "login, fixedwindow 5/h by ip+path", "steady (shadow)", "all together: 4793 allowed, 535 denied"} {
		require.Contains(t, string(clitest.Read(t, picture)), word)
	}
	clitest.Golden(t, "rules.json", clitest.Ok(t, "", "replay", "--config", clitest.ExampleConfig, "--top", "1", "--json"))
}

// rulesOf replays a log under a file and returns the report.
func rulesOf(t *testing.T, file, log string) JSONRulesReport {
	t.Helper()
	return clitest.JSON[JSONRulesReport](t, log, "replay", "--json", "--config", clitest.Write(t, "limits.yaml", file), "-")
}

func TestReplaysOfRules(t *testing.T) {
	one := func(fields string) string { return "rules: [{name: a, policy: gcra 1/m, " + fields + "}]" }
	missing := func(value string) string {
		return "rules: [{name: a, policy: gcra 1/h, by: user, missing: " + value + "}]"
	}
	user := func(names ...string) (log string) {
		for _, name := range names {
			log += `{"time": 946684800, "user": "` + name + `"}` + "\n"
		}
		return log
	}
	count := "rules: [{name: login, policy: fixedwindow 2/h, by: ip, count: [401, 5xx]}, {name: all, policy: fixedwindow 100/h}]"
	tenants := `{"time": 946684800, "ip": "192.0.2.1", "tenant": "x; y"}
{"time": 946684801, "ip": "192.0.2.1", "tenant": "x; y"}
{"time": 946684802, "ip": "192.0.2.1", "tenant": "z"}
`
	clitest.Transcript(t, "rule_replays.txt", map[string]string{
		"access.log": clitest.FourLines, "limits.yaml": clitest.OneRule, "bits.yaml": "ipv6_bits: 128\n" + clitest.OneRule,
		"ipv6.log":  strings.NewReplacer("192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::ffff").Replace(clitest.FourLines),
		"user.yaml": one("by: user"), "user-ip.yaml": one("by: [user, ip]"), "host.yaml": one("by: [user, host], methods: [PUT]"),
		"colon.json": user("tenant:1", "tenant:2", "tenant:2"), "escape.json": user(`\"\u001b[2J`, `\"\u001b[2J`), "control.json": user(`\u009b2J\u007f\u001bé𝄞`, `\u009b2J\u007f\u001bé𝄞`),
		"missing-ip.yaml": missing("ip"), "missing-share.yaml": missing("share"), "missing-skip.yaml": missing("skip"), "missing-deny.yaml": missing("deny"),
		"nobody.log":    strings.ReplaceAll(clitest.FourLines, " - ann ", " - - "),
		"tenant.yaml":   "rules: [{name: a, policy: gcra 1/m, by: header:X-Tenant}, {name: b, policy: gcra 9/m, by: [header:x-tenant, ip]}]",
		"session.yaml":  one("by: cookie:session"),
		"tenants.json":  tenants,
		"sessions.json": strings.ReplaceAll(tenants, "x; y", "x-y"),
		"running.yaml":  strings.Replace(clitest.OneRule, "[", "[{name: running, policy: inflight 2 ttl=30s, by: header:x, cost: bytes}, ", 1),
		"trusted.yaml":  "trusted: 10.0.0.0/24\n" + clitest.OneRule, "forwarded.yaml": "trusted: 10.0.0.0/24\nforwarded: true\n" + clitest.OneRule,
		"lists.log":  strings.NewReplacer("192.0.2.1 ", "6.6.6.6 x, 192.0.2.1, 10.0.0.1 ", "192.0.2.2 ", "192.0.2.2, 10.0.0.2, 10.0.0.1:80 ").Replace(clitest.FourLines),
		"count.yaml": count, "nocount.yaml": strings.Replace(count, ", count: [401, 5xx]", "", 1), "logins.log": failedLogins,
		"nostatus.json": `{"time":1000000001,"ip":"192.0.2.1"}` + "\n" + `{"time":1000000001,"ip":"192.0.2.1","status":200}` + "\n" + `{"time":1000000002,"ip":"192.0.2.1"}` + "\n" + `{"time":1000000003,"ip":"192.0.2.1"}` + "\n",
		"estimate.yaml": "rules: [{name: tokens, policy: fixedwindow 1000/h, cost: {estimate: 500, actual: header:X-Tokens-Used}}]",
	})
}

func TestRequestsOfATrustedProxyAreReported(t *testing.T) {
	require.EqualValues(t, 3, rulesOf(t, "trusted: 192.0.2.1\n"+clitest.OneRule, clitest.FourLines).Proxied)
	out := clitest.Ok(t, clitest.FourLines, "replay", "--config", clitest.Write(t, "limits.yaml", "trusted: 192.0.2.1\n"+clitest.OneRule), "-")
	require.Contains(t, out, "3 requests logged with the address of a trusted proxy instead of the client's")
	tracetest.Answers(t, "testdata/proxied.txt", func(list string) string {
		log := strings.ReplaceAll(clitest.FourLines, "192.0.2.1 ", list+" ")
		return fmt.Sprint(rulesOf(t, "trusted: [10.0.0.0/24, '::1']\n"+clitest.OneRule, log).Proxied)
	})
}

// failedLogins has 2 failures and 3 successes of one client, and then a request that is denied if only failures count.
const failedLogins = `192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:01 +0000] "POST /login HTTP/1.1" 401 1
192.0.2.1 - - [01/Jan/2000:00:00:02 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:03 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:04 +0000] "POST /login HTTP/1.1" 503 1
192.0.2.1 - - [01/Jan/2000:00:00:05 +0000] "POST /login HTTP/1.1" 200 1
`

const servedRules = `
rules:
  - {name: client, policy: gcra 20/m burst=6, by: ip}
  - {name: login, policy: fixedwindow 4/h, by: "user+path", methods: [POST], paths: [/login, /caf\u00e9/*], cost: 2}
  - {name: site, policy: tokenbucket 10/m, by: [host, method], methods: [GET, POST]}
  - {name: tried, policy: movingwindow 3/m, by: path, shadow: true}
  - {name: user, policy: gcra 4/m burst=4, by: user, shadow: true}
  - {name: named, policy: gcra 6/m burst=2, by: [user, method], missing: skip, shadow: true}
  - {name: shared, policy: gcra 6/m burst=2, by: [user, ip], missing: share, shadow: true}
  - {name: strict, policy: gcra 9/m burst=3, by: [user, path], missing: deny, methods: [POST]}
`

// TestReplayDecidesLikeTheServer: the replay of a log makes the decisions that a server with the same
// rules has made.
func TestReplayDecidesLikeTheServer(t *testing.T) {
	file := strings.ReplaceAll(servedRules, `\u00e9`, "é")
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	server := serverOf(t, file, func() time.Time { return now })
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	var log strings.Builder
	var denied int64
	for range 4000 {
		now = now.Add(time.Duration(random.IntN(3)) * time.Second)
		ip := pick("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "::ffff:192.0.2.2")
		host, method, user := pick("a.example", "A.example", "b.example"), pick("GET", "HEAD", "POST", "post"), pick("-", "ann", "bob")
		target := pick("/", "/login", "/%6cogin", "//login?next=/", "/caf%C3%A9/x", "/caf%c3%a9/./x/", "/x%2Fy", "/%25", "http://a.example/login", "/a;b",
			"/1%2fx/../login", "/caf%C3%A9/%2e%2e%2f1")
		if !served(t, server, ip, host, method, user, target) {
			denied++
		}
		fmt.Fprintf(&log, "%s:80 %s - %s [%s] \"%s %s HTTP/1.1\" 200 1\n", host, ip, user, now.Format("02/Jan/2006:15:04:05 -0700"), method, target)
	}
	require.Positive(t, denied)
	r := rulesOf(t, file, log.String())
	require.EqualValues(t, 4000, r.Together.Requests)
	require.Equal(t, denied, r.Together.Denied)
	for _, rule := range r.Rules {
		require.Positive(t, rule.Denied, rule.Rule)
		require.Positive(t, rule.Allowed, rule.Rule)
	}
}

func serverOf(t *testing.T, file string, clock func() time.Time) http.Handler {
	f, err := config.Parse("limits.yaml", []byte(file))
	require.NoError(t, err)
	limiter, err := sluice.Options[*http.Request]{Clock: clock}.New(nil, f.HTTPRules(0, nil)...)
	require.NoError(t, err)
	return httplimit.Handler(limiter, http.NotFoundHandler(), httplimit.Options{})
}

// served sends a request in its text form, and reports whether the server allowed it.
func served(t *testing.T, server http.Handler, ip, host, method, user, target string) bool {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, host))))
	require.NoError(t, err)
	r.RemoteAddr = "[" + ip + "]:99"
	if !strings.Contains(ip, ":") {
		r.RemoteAddr = ip + ":99"
	}
	if user != "-" {
		r.SetBasicAuth(user, "secret")
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	require.Contains(t, []int{http.StatusNotFound, http.StatusTooManyRequests}, w.Code)
	return w.Code == http.StatusNotFound
}
