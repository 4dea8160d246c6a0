package replay

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestRulesOfAFileAreReplayed(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "rules.svg")
	exitCode, out, errs := clitest.Execute(t, "", "replay", "--config", clitest.ExampleConfig, "--top", "3", "--out", picture)
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	clitest.Golden(t, "rules.txt", out)
	for _, word := range []string{"under each rule", "rules of limits.yaml", "login, fixedwindow 5/h by ip+path", "steady (shadow)", "all together: 4793 allowed, 535 denied"} {
		require.Contains(t, string(clitest.Read(t, picture)), word)
	}
	exitCode, out, errs = clitest.Execute(t, "", "replay", "--config", clitest.ExampleConfig, "--top", "1", "--json")
	require.Zero(t, exitCode, errs)
	clitest.Golden(t, "rules.json", out)
}

// rulesOf replays a log under a file and returns the report.
func rulesOf(t *testing.T, file, log string, flags ...string) JSONRulesReport {
	t.Helper()
	args := append([]string{"replay", "--json", "--config", clitest.Write(t, "limits.yaml", file)}, flags...)
	out := clitest.Ok(t, log, append(args, "-")...)
	var r JSONRulesReport
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return r
}

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	log := strings.NewReplacer("192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::ffff").Replace(clitest.FourLines)
	r := rulesOf(t, clitest.OneRule, log)
	require.EqualValues(t, 1, r.Rules[0].Keys)
	require.EqualValues(t, 3, r.Together.Denied)
	require.Equal(t, []backtest.Denials{{Key: "2001:db8::/64", Denied: 3}}, r.Rules[0].TopDenied)
	require.EqualValues(t, 2, rulesOf(t, "ipv6_bits: 128\n"+clitest.OneRule, log).Rules[0].Keys)
}

// A colon ends the name in Authorization: Basic, but JSON logs can have one in a name.
func TestUsersWithAColonHaveDifferentKeys(t *testing.T) {
	log := `{"time":1000000001,"user":"tenant:1"}` + "\n" + `{"time":1000000001,"user":"tenant:2"}` + "\n" + `{"time":1000000001,"user":"tenant:2"}` + "\n"
	r := rulesOf(t, "rules: [{name: user, policy: gcra 1/m, by: user}]", log)
	require.EqualValues(t, 2, r.Rules[0].Keys)
	require.Equal(t, []backtest.Denials{{Key: "tenant%3A2", Denied: 1}}, r.Rules[0].TopDenied)
}

func TestRequestsOfATrustedProxyAreReported(t *testing.T) {
	require.EqualValues(t, 3, rulesOf(t, "trusted: 192.0.2.1\n"+clitest.OneRule, clitest.FourLines).Proxied)
	out := clitest.Ok(t, clitest.FourLines, "replay", "--config", clitest.Write(t, "limits.yaml", "trusted: 192.0.2.1\n"+clitest.OneRule), "-")
	require.Contains(t, out, "3 requests logged with the address of a trusted proxy instead of the client's")
	for list, proxied := range map[string]int64{
		"10.0.0.1":                  3,
		"10.0.0.2, 10.0.0.1":        3,
		"unknown, 10.0.0.1":         3,
		"192.0.2.9, 10.0.0.1":       0,
		"6.6.6.6 x, 192.0.2.9":      0,
		"::1, ::ffff:10.0.0.2":      3,
		"2001:db8::1, 10.0.0.1":     0,
		"6.6.6.6 x, 192.0.2.9, ::1": 0,
		"192.0.2.9, unknown, ::1":   3,
	} {
		log := strings.ReplaceAll(clitest.FourLines, "192.0.2.1 ", list+" ")
		require.Equal(t, proxied, rulesOf(t, "trusted: [10.0.0.0/24, '::1']\n"+clitest.OneRule, log).Proxied, list)
	}
}

func TestFieldsMissingInTheLogAreReported(t *testing.T) {
	config := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcra 1/m, by: [user, host], methods: [PUT]}]")
	out := clitest.Ok(t, clitest.FourLines, "replay", "--config", config, "-")
	require.Contains(t, out, "1 of 4 requests without a user; under rule a they are limited by ip\nno request has a host; for the rules it is empty\n")
	require.Regexp(t, `\n  a +0 +0 +0 +- +0 +0 `, out)
}

func TestMissingUsersFollowTheRule(t *testing.T) {
	nobody := strings.ReplaceAll(clitest.FourLines, " - ann ", " - - ")
	require.NotEqual(t, clitest.FourLines, nobody)
	for missing, want := range map[string]struct {
		requests, denied, never, keys int64
		words                         string
	}{
		"ip":    {4, 2, 0, 2, "they are limited by ip"},
		"share": {4, 3, 0, 1, "they share one limit"},
		"skip":  {0, 0, 0, 0, "they are not limited by this rule"},
		"deny":  {4, 4, 4, 1, "they are denied"},
	} {
		file := "rules: [{name: a, policy: gcra 1/h, by: user, missing: " + missing + "}]"
		r := rulesOf(t, file, nobody).Rules[0]
		require.Equal(t, []int64{want.requests, want.denied, want.never, want.keys}, []int64{r.Requests, r.Denied, r.Never, r.Keys}, missing)
		_, out, _ := clitest.Execute(t, nobody, "replay", "--config", clitest.Write(t, "limits.yaml", file), "-")
		require.Contains(t, out, "no request has a user; under rule a "+want.words+"\n")
	}
}

func TestKeyFieldSuppliesTheHeaderOfARule(t *testing.T) {
	log := `{"time": 946684800, "ip": "192.0.2.1", "tenant": "x; y"}
{"time": 946684801, "ip": "192.0.2.1", "tenant": "x; y"}
{"time": 946684802, "ip": "192.0.2.1", "tenant": "z"}
`
	r := rulesOf(t, "rules: [{name: a, policy: gcra 1/m, by: header:X-Tenant}, {name: b, policy: gcra 9/m, by: [header:x-tenant, ip]}]", log, "--key-field", "tenant")
	require.Equal(t, []backtest.Denials{{Key: "x; y", Denied: 1}}, r.Rules[0].TopDenied)
	require.EqualValues(t, 2, r.Rules[1].Keys)
	r = rulesOf(t, "rules: [{name: a, policy: gcra 1/m, by: cookie:session}]", strings.ReplaceAll(log, "x; y", "x-y"), "--key-field", "tenant")
	require.Equal(t, []backtest.Denials{{Key: "x-y", Denied: 1}}, r.Rules[0].TopDenied)
}

// The others are replayed, so that a file for sluice serve can be.
func TestRulesForRequestsAtTheSameTimeAreLeftOut(t *testing.T) {
	with := strings.Replace(clitest.OneRule, "[", "[{name: running, policy: inflight 2 ttl=30s, by: header:x, cost: bytes}, ", 1)
	want := rulesOf(t, clitest.OneRule, clitest.FourLines)
	require.Equal(t, []string{}, want.LeftOut)
	got := rulesOf(t, with, clitest.FourLines)
	require.Equal(t, []string{"running"}, got.LeftOut)
	got.LeftOut = want.LeftOut
	require.Equal(t, want, got)

	out := clitest.Ok(t, clitest.FourLines, "replay", "--config", clitest.Write(t, "limits.yaml", with), "-")
	require.Contains(t, out, "1 rule of ")
	require.Contains(t, out, "\nrule running is left out: inflight 2 ttl=30s limits requests at the same time, and access logs do not show when a request ends\n")
	exitCode, _, errs := clitest.Execute(t, clitest.FourLines, "replay", "--config", clitest.Write(t, "limits.yaml", with), "--key-field", "k", "-")
	require.Equal(t, 2, exitCode)
	require.Contains(t, errs, "--key-field has no effect: no rule of ")
	require.Contains(t, errs, " that can be replayed is by a header or a cookie")
}

func TestJSONHasNoControlCharacters(t *testing.T) {
	line := `{"time": 946684800, "user": "\u009b2J\u007f\u001bé𝄞"}` + "\n"
	file := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcra 1/m, by: user}]")
	out := clitest.Ok(t, line+line, "replay", "--json", "--config", file, "-")
	require.Contains(t, out, `"key": "\u009b2J\u007f\u001bé𝄞"`)
	require.Equal(t, "\u009b2J\x7f\x1bé𝄞", rulesOf(t, "rules: [{name: a, policy: gcra 1/m, by: user}]", line+line).Rules[0].TopDenied[0].Key)
}

// TestKeysHaveNoControlCharacters: keys that look like keys of several fields have none either.
func TestKeysHaveNoControlCharacters(t *testing.T) {
	line := `{"time": 946684800, "user": "\"\u001b[2J"}` + "\n"
	for by, want := range map[string]string{"user": `\n  \\"\\\\\\"\\\\x1b\[2J\\" +1\n`, "[user, ip]": `\n  "\\"\\\\\\"\\\\x1b\[2J\\"" "" +1\n`} {
		file := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcra 1/m, by: "+by+"}]")
		out := clitest.Ok(t, line+line, "replay", "--config", file, "-")
		require.NotContains(t, out, "\x1b")
		require.Regexp(t, want, out)
	}
}

func TestInvalidCommandLinesOfReplayWithRules(t *testing.T) {
	log := clitest.Write(t, "access.log", clitest.FourLines)
	good := clitest.Write(t, "limits.yaml", clitest.OneRule)
	trace := clitest.Write(t, "a.trace", "policy gcra 1/s\n@0s a 1\n")
	rule := func(text string) string {
		return clitest.Write(t, "limits.yaml", "rules: [{name: first, policy: gcra 1/s, by: ip}, {name: odd, policy: gcra 1/s, "+text+"}]")
	}
	clitest.RequireFailures(t, map[string]clitest.Failure{
		"two kinds":      {[]string{"replay", "--config", good, "-p", "gcra 1/s", log}, 2, []string{"-p and --config", "limits.yaml"}},
		"two keys":       {[]string{"replay", "--config", good, "--by", "ip", log}, 2, []string{"--by and --config", "leave --by out"}},
		"empty name":     {[]string{"replay", "--config", "", log}, 2, []string{"--config is empty"}},
		"missing file":   {[]string{"replay", "--config", good + ".old", log}, 2, []string{"limits.yaml.old", "a rule file"}},
		"faults":         {[]string{"replay", "--config", rule("by: colour"), log}, 1, []string{`limits.yaml:1: rules[1].by: no field "colour"`}},
		"trace":          {[]string{"replay", "--config", good, trace}, 2, []string{"--config is for access logs", "a.trace"}},
		"header":         {[]string{"replay", "--config", rule("by: header:x-team"), log}, 2, []string{"rule odd is by header:X-Team", "--key-field", "copy of the file"}},
		"two headers":    {[]string{"replay", "--config", rule("by: header:a+header:b"), "--key-field", "k", log}, 2, []string{"header:A and by header:B", "only one", "without rule odd"}},
		"bytes":          {[]string{"replay", "--config", rule("cost: bytes"), log}, 2, []string{"rule odd has cost: bytes", "a number as its cost"}},
		"only in flight": {[]string{"replay", "--config", clitest.Write(t, "running.yaml", "rules: [{name: a, policy: inflight 2 ttl=30s}]"), log}, 2, []string{"running.yaml has only rules for requests at the same time, and access logs do not show when a request ends; add a rule with a rate"}},
		"no header":      {[]string{"replay", "--config", good, "--key-field", "k", log}, 2, []string{"--key-field has no effect", "no rule of"}},
		"rules as a log": {[]string{"replay", good}, 1, []string{"limits.yaml:1", "use --config"}},
	})
}

// TestTrustedProxiesAreSkippedInLists: clients can forge the addresses before them.
func TestTrustedProxiesAreSkippedInLists(t *testing.T) {
	log := strings.NewReplacer("192.0.2.1 ", "6.6.6.6 x, 192.0.2.1, 10.0.0.1 ", "192.0.2.2 ", "192.0.2.2, 10.0.0.2, 10.0.0.1:80 ").Replace(clitest.FourLines)
	for _, header := range []string{"", "forwarded: true\n"} {
		r := rulesOf(t, "trusted: 10.0.0.0/24\n"+header+clitest.OneRule, log)
		require.Equal(t, []backtest.Denials{{Key: "192.0.2.1", Denied: 2}}, r.Rules[0].TopDenied)
		require.EqualValues(t, 2, r.Rules[0].Keys)
		require.Zero(t, r.Proxied)
		require.Empty(t, r.Missing)
	}
	r := rulesOf(t, clitest.OneRule, log)
	require.Equal(t, []backtest.Denials{{Key: "10.0.0.1", Denied: 3}}, r.Rules[0].TopDenied, "nobody is trusted")
}

// failedLogins has 2 failures and 3 successes of one client, and then a request that is denied if only failures count.
const failedLogins = `192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:01 +0000] "POST /login HTTP/1.1" 401 1
192.0.2.1 - - [01/Jan/2000:00:00:02 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:03 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:04 +0000] "POST /login HTTP/1.1" 503 1
192.0.2.1 - - [01/Jan/2000:00:00:05 +0000] "POST /login HTTP/1.1" 200 1
`

func TestReplayGivesChargesBackByStatus(t *testing.T) {
	const file = "rules: [{name: login, policy: fixedwindow 2/h, by: ip, count: [401, 5xx]}, {name: all, policy: fixedwindow 100/h}]"
	r := rulesOf(t, file, failedLogins)
	require.EqualValues(t, 5, r.Together.Allowed)
	require.EqualValues(t, 1, r.Together.Denied)
	require.EqualValues(t, 6, r.Rules[0].Requests)
	require.EqualValues(t, 1, r.Rules[0].Denied)
	require.EqualValues(t, 2, r.Rules[0].Worst.Admitted)
	require.EqualValues(t, 5, r.Rules[1].Worst.Admitted)
	require.EqualValues(t, 4, rulesOf(t, strings.Replace(file, ", count: [401, 5xx]", "", 1), failedLogins).Together.Denied)

	unknown := `{"time":1000000001,"ip":"192.0.2.1"}` + "\n" + `{"time":1000000001,"ip":"192.0.2.1","status":200}` + "\n" + `{"time":1000000002,"ip":"192.0.2.1"}` + "\n" + `{"time":1000000003,"ip":"192.0.2.1"}` + "\n"
	require.EqualValues(t, 1, rulesOf(t, file, unknown).Together.Denied)
	out := clitest.Ok(t, unknown, "replay", "--config", clitest.Write(t, "limits.yaml", file), "-")
	require.Contains(t, out, "3 of 4 requests without a status; rules with count charge them\n")
}

func TestReplayUsesTheEstimate(t *testing.T) {
	const file = "rules: [{name: tokens, policy: fixedwindow 1000/h, cost: {estimate: 500, actual: header:X-Tokens-Used}}]"
	r := rulesOf(t, file, clitest.FourLines)
	require.EqualValues(t, 2, r.Together.Denied)
	require.EqualValues(t, 1000, r.Rules[0].Worst.Admitted)
	out := clitest.Ok(t, clitest.FourLines, "replay", "--config", clitest.Write(t, "limits.yaml", file), "-")
	require.Contains(t, out, "\nrule tokens is replayed with its estimate of 500 units: access logs do not have the header X-Tokens-Used of the response\n")
}
