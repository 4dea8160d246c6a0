package check

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestCheckExplainsAFile(t *testing.T) {
	exitCode, out, errs := clitest.Execute(t, "", "check", filepath.Join("..", "..", "..", "..", "examples", "limits.yaml"))
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	clitest.Golden(t, "check.txt", out)
}

func TestCheckShowsThatGETIncludesHEAD(t *testing.T) {
	for methods, want := range map[string]string{
		"[GET]":             ", only GET and HEAD\n",
		"[PUT, GET, POST]":  ", only PUT and GET and HEAD and POST\n",
		"[HEAD, GET]":       ", only HEAD and GET\n",
		"[post]":            ", only POST\n",
		"[POST], paths: /a": ", only POST of /a\n",
		"GET, paths: /a":    ", only GET and HEAD of /a\n",
	} {
		out := clitest.Ok(t, "rules: [{name: client, policy: gcra 1/m, methods: "+methods+"}]", "check", "-")
		require.Contains(t, out, want)
	}
}

func TestCheckShowsTheEffectOfMissing(t *testing.T) {
	for fields, want := range map[string]string{
		"by: header:x-key":                                   "requests without header:X-Key are limited by ip",
		"by: user, missing: ip":                              "requests without user are limited by ip",
		"by: [ip, cookie:id], missing: share":                "requests without cookie:id share one limit",
		"by: [header:x-key, cookie:id, path], missing: skip": "requests without header:X-Key or cookie:id are not limited by this rule",
		"by: cookie:id, missing: deny":                       "requests without cookie:id are denied",
	} {
		out := clitest.Ok(t, "rules: [{name: a, policy: gcra 1/m, "+fields+"}]", "check", "-")
		require.Contains(t, out, "\n     "+want+"\n")
	}
	_, out, _ := clitest.Execute(t, clitest.OneRule, "check", "-")
	require.NotContains(t, out, "without", "every request has an address")
}

func TestCheckWarnsIfRulesByIPTrustNoProxy(t *testing.T) {
	const rules = "rules: [{name: a, policy: gcra 1/m, by: ip}, {name: b, policy: gcra 1/m, by: user}, {name: c, policy: gcra 1/m}]\n"
	exitCode, out, errs := clitest.Execute(t, rules, "check", "-")
	require.Zero(t, exitCode, "a warning is no fault")
	require.Contains(t, out, "standard input: 3 rules")
	require.Equal(t, "standard input: warning: no proxy is trusted; behind a proxy, "+
		"all requests that are limited by ip share one limit under these rules: a, b; add the proxy's address to trusted, or write trusted: [] if clients connect directly\n", errs)
	for _, trusted := range []string{"trusted: []\n", "trusted: 10.0.0.1\n"} {
		exitCode, _, errs = clitest.Execute(t, trusted+rules, "check", "-")
		require.Zero(t, exitCode)
		require.Empty(t, errs)
	}
	_, _, errs = clitest.Execute(t, "rules: [{name: c, policy: gcra 1/m, by: path}]", "check", "-")
	require.Empty(t, errs)
}

func TestCheckReportsEveryFile(t *testing.T) {
	good := clitest.Write(t, "good.yaml", "trusted: 10.0.0.1\nforwarded: true\nipv6_bits: 48\n"+clitest.OneRule)
	bad := clitest.Write(t, "bad.yaml", "rules:\n- {name: client, policy: grca 1/m, by: ipp}\n")
	exitCode, out, errs := clitest.Execute(t, clitest.OneRule, "check", bad, good, "-", bad)
	require.Equal(t, cli.ExitFailed, exitCode)
	require.Contains(t, out, good+": 1 rule\n\n  client addresses come from Forwarded if the peer is one of 10.0.0.1/32\n\n  an IPv6 client is its /48\n")
	require.Contains(t, out, "\nstandard input: 1 rule\n")
	require.Equal(t, 2, strings.Count(errs, bad+`:2: rules[0].by: no field "ipp"`))
	require.Equal(t, 2, strings.Count(errs, "\n  grca 1/m\n  ^^^^\n"))
	require.True(t, strings.HasPrefix(errs, bad+":2: rules[0].policy: unknown algorithm"), errs)
}

func TestInvalidCommandLinesOfCheck(t *testing.T) {
	dir := t.TempDir()
	clitest.RequireFailures(t, map[string]clitest.Failure{
		"no file":      {[]string{"check"}, 2, []string{"no file to check", "limits.yaml"}},
		"unknown flag": {[]string{"check", "--strict"}, 2, []string{"--strict", "check --help"}},
		"missing file": {[]string{"check", filepath.Join(dir, "no.yaml")}, 2, []string{"no.yaml", "limits.yaml"}},
		"directory":    {[]string{"check", dir}, 2, []string{dir, "is a directory; name a file in it, for instance " + filepath.Join(dir, "limits.yaml")}},
		"twice":        {[]string{"check", "-", "-"}, 2, []string{"standard input (-) can be read only once"}},
		"empty":        {[]string{"check", "-"}, 1, []string{"standard input:1: the file is empty; want rules"}},
		"a log":        {[]string{"check", clitest.Write(t, "access.log", clitest.FourLines)}, 1, []string{"access.log:1: "}},
		"gzip":         {[]string{"check", clitest.Write(t, "limits.gz", clitest.Gzipped(clitest.OneRule))}, 1, []string{"limits.gz:1: the file is not UTF-8 text"}},
	})
}

func TestCheckPrintsTheBoundsOfEachRule(t *testing.T) {
	for rule, want := range map[string]string{
		"policy: gcra 1000/h":                                 "at most 1000 requests in any second, 1016 in any minute, 2000 in any hour, 25000 in any day",
		"policy: gcra 1000/h burst=1":                         "at most 1 request in any second, 17 in any minute, 1001 in any hour, 24001 in any day",
		"policy: movingwindow 1000/h slots=12 trailing=whole": "at most 1000 requests in any second, 1000 in any minute, 1000 in any hour, 23000 in any day",
		"policy: fixedwindow 5/15m":                           "at most 9 requests in any second, 9 in any minute, 10 in any 15m, 25 in any hour, 485 in any day",
		"policy: all(gcra 10/s; gcra 100/m)":                  "at most 20 requests in any second, 200 in any minute, 6100 in any hour, 144100 in any day",
		"policy: tokenbucket 200/m, cost: 10":                 "at most 20 requests in any second, 40 in any minute, 1220 in any hour, 28820 in any day",
		"policy: fixedwindow 10/h, cost: 6":                   "at most 1 request in any second, 1 in any minute, 2 in any hour, 25 in any day",
		"policy: all(gcra 9/s; fixedwindow 10/h), cost: 6":    "at most 1 request in any second, 1 in any minute, 2 in any hour, 25 in any day",
		"policy: penalty(fixedwindow 10/h; for=1h), cost: 6":  "at most 1 request in any second, 1 in any minute, 2 in any hour, 25 in any day",
		"policy: calendar 10/day, cost: 6":                    "at most 2 requests in any second, 2 in any minute, 2 in any hour, 2 in any day",
		"policy: gcra 1000000/s, cost: bytes":                 "at most 2000000 bytes in any second, 61000000 in any minute, 3601000000 in any hour, 86401000000 in any day",
		"policy: fixedwindow 1099511627776/10us":              "        at most 2199023255552 requests in any 10µs, 109952262289227776 in any second, 6597070866167627776 in any minute, too many to count in any hour, too many to count in any day",
	} {
		out := clitest.Ok(t, "rules: [{name: client, "+rule+"}]", "check", "-")
		require.Contains(t, out, "  "+want+"\n", rule)
	}
}

func TestCheckPrintsTheRateOfEachRule(t *testing.T) {
	for policy, want := range map[string]string{
		"calendar 100/month tz=Europe/Berlin":           "100/month",
		"all(gcra 5/s; calendar 100/month)":             "5/s and 100/month",
		"penalty(all(gcra 5/s; gcra 100/m); for=1h)":    "5/s and 100/m",
		"penalty(calendar 5/day; for=1h)":               "5/day",
		"tokenbucket 100/60s burst=5 refill=interval":   "100/m",
		"movingwindow 300/15min slots=4 trailing=whole": "300/15m",
	} {
		require.Contains(t, clitest.Ok(t, "rules: [{name: client, policy: '"+policy+"'}]", "check", "-"), " at once, "+want+" in the long run\n", policy)
	}
}

func TestCheckExplainsHeldUnits(t *testing.T) {
	for rule, want := range map[string]string{
		"policy: inflight 20 ttl=30s":                "at most 20 requests at the same time",
		"policy: inflight 20 ttl=30s, cost: 3":       "at most 6 requests (20 units) at the same time",
		"policy: inflight 2000 ttl=30s, cost: bytes": "at most 2000 bytes at the same time",
	} {
		out := clitest.Ok(t, "rules: [{name: client, "+rule+"}]", "check", "-")
		require.Contains(t, out, "  "+want+"\n", rule)
		require.Contains(t, out, "  a request counts until its response has ended; if sluice crashes, its units return 30s to 33s after they were taken or renewed\n")
		require.NotContains(t, out, "in the long run")
		require.NotContains(t, out, "in any")
	}
	out := clitest.Ok(t, "rules: [{name: client, policy: inflight 1 ttl=24h slots=7}]", "check", "-")
	require.Contains(t, out, "return 24h to 27h26m after")
}

func TestAPenaltyHasTheLimitsOfItsPolicy(t *testing.T) {
	for spec, want := range map[string]string{"fixedwindow 5/15m": "5/15m", "all(gcra 10/s; gcra 5/h)": "10/s and 5/h"} {
		out := clitest.Ok(t, `rules: [{name: p, policy: "penalty(`+spec+`; for=1m)"}]`, "check", "-")
		require.Contains(t, out, "up to 5 requests at once, "+want+" in the long run\n")
	}
}

func TestCheckExplainsCostsThatTheResponseDecides(t *testing.T) {
	out := clitest.Ok(t, "rules: [{name: login, policy: fixedwindow 5/15min, count: [401, 5xx]}]", "check", "-")
	for _, line := range []string{
		"fixedwindow 5/15m for all requests together, charged only if the status is 401 or 5xx",
		"up to 5 charged requests at once, 5/15m in the long run",
		"at most 9 charged requests in any second",
		"each request is charged before; a response with another status gives the charge back",
	} {
		require.Contains(t, out, line)
	}
	out = clitest.Ok(t, "rules: [{name: tokens, policy: fixedwindow 1000/h, cost: {estimate: 500, actual: header:X-Tokens-Used}}]", "check", "-")
	for _, line := range []string{
		"fixedwindow 1000/h for all requests together, 500 units for each request until its response says the actual number in X-Tokens-Used",
		"up to 1000 units at once, 1000/h in the long run",
		"units in any second",
		"a response without a whole number in X-Tokens-Used leaves the estimate charged; a larger number is charged even if less is left, so it can exceed what is above",
	} {
		require.Contains(t, out, line)
	}
}
