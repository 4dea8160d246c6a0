package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const oneRule = "rules: [{name: client, policy: gcra 1/m, by: ip}]\n"

func TestCheckExplainsAFile(t *testing.T) {
	exitCode, out, errs := sluice(t, "", "check", filepath.Join("..", "..", "examples", "limits.yaml"))
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	golden(t, "check.txt", out)
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
		exitCode, out, errs := sluice(t, "rules: [{name: client, policy: gcra 1/m, methods: "+methods+"}]", "check", "-")
		require.Zero(t, exitCode, errs)
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
		exitCode, out, errs := sluice(t, "rules: [{name: a, policy: gcra 1/m, "+fields+"}]", "check", "-")
		require.Zero(t, exitCode, errs)
		require.Contains(t, out, "\n     "+want+"\n")
	}
	_, out, _ := sluice(t, oneRule, "check", "-")
	require.NotContains(t, out, "without", "every request has an address")
}

func TestCheckWarnsIfRulesByIPTrustNoProxy(t *testing.T) {
	const rules = "rules: [{name: a, policy: gcra 1/m, by: ip}, {name: b, policy: gcra 1/m, by: user}, {name: c, policy: gcra 1/m}]\n"
	exitCode, out, errs := sluice(t, rules, "check", "-")
	require.Zero(t, exitCode, "a warning is no fault")
	require.Contains(t, out, "standard input: 3 rules")
	require.Equal(t, "standard input: warning: no proxy is trusted, and rules a, b (requests without user) limit by ip; if sluice serve --upstream, or the program, is behind a proxy, "+
		"all clients share one limit; add the proxy's address to trusted, or write trusted: [] if clients connect directly\n", errs)
	for _, trusted := range []string{"trusted: []\n", "trusted: 10.0.0.1\n"} {
		exitCode, _, errs = sluice(t, trusted+rules, "check", "-")
		require.Zero(t, exitCode)
		require.Empty(t, errs)
	}
	_, _, errs = sluice(t, "rules: [{name: c, policy: gcra 1/m, by: path}]", "check", "-")
	require.Empty(t, errs)
}

func TestCheckReportsEveryFile(t *testing.T) {
	good := write(t, "good.yaml", "trusted: 10.0.0.1\nforwarded: true\nipv6_bits: 48\n"+oneRule)
	bad := write(t, "bad.yaml", "rules:\n- {name: client, policy: grca 1/m, by: ipp}\n")
	exitCode, out, errs := sluice(t, oneRule, "check", bad, good, "-", bad)
	require.Equal(t, exitFailed, exitCode)
	require.Contains(t, out, good+": 1 rule\n\n  client addresses come from Forwarded if the peer is one of 10.0.0.1/32\n\n  an IPv6 client is its /48\n")
	require.Contains(t, out, "\nstandard input: 1 rule\n")
	require.Equal(t, 2, strings.Count(errs, bad+`:2: rules[0].by: no field "ipp"`))
	require.Equal(t, 2, strings.Count(errs, "\n  grca 1/m\n  ^^^^\n"))
	require.True(t, strings.HasPrefix(errs, bad+":2: rules[0].policy: unknown algorithm"), errs)
}

func TestInvalidCommandLinesOfCheck(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args       []string
		exitCode   int
		waitForLog []string
	}{
		"no file":      {[]string{"check"}, 2, []string{"no file to check", "limits.yaml"}},
		"unknown flag": {[]string{"check", "--strict"}, 2, []string{"--strict", "check --help"}},
		"missing file": {[]string{"check", filepath.Join(dir, "no.yaml")}, 2, []string{"no.yaml", "limits.yaml"}},
		"directory":    {[]string{"check", dir}, 2, []string{dir, "is a directory; name a file in it, for instance " + filepath.Join(dir, "limits.yaml")}},
		"twice":        {[]string{"check", "-", "-"}, 2, []string{"standard input (-) can be read only once"}},
		"empty":        {[]string{"check", "-"}, 1, []string{"standard input:1: the file is empty; want rules"}},
		"a log":        {[]string{"check", write(t, "access.log", fourLines)}, 1, []string{"access.log:1: "}},
		"gzip":         {[]string{"check", write(t, "limits.gz", gzipped(oneRule))}, 1, []string{"limits.gz:1: the file is not UTF-8 text"}},
	} {
		t.Run(name, func(t *testing.T) {
			exitCode, out, errs := sluice(t, "", c.args...)
			require.Equal(t, c.exitCode, exitCode, errs)
			require.Empty(t, out)
			for _, s := range c.waitForLog {
				require.Contains(t, errs, s)
			}
		})
	}
}
