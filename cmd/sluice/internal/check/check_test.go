package check

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestCheckExplainsAFile(t *testing.T) {
	clitest.Golden(t, "check.txt", clitest.Ok(t, "", "check", clitest.ExampleConfig))
}

func TestCheckExplainsEachRule(t *testing.T) {
	tracetest.Answers(t, "testdata/rules.txt", func(fields string) string {
		out := clitest.Ok(t, "trusted: []\nrules: [{name: client, "+fields+"}]", "check", "-")
		_, explained, found := strings.Cut(out, "standard input: 1 rule\n")
		require.True(t, found)
		return strings.TrimRight(explained, "\n")
	})
}

func TestCheckWarnsIfRulesByIPTrustNoProxy(t *testing.T) {
	const rules = "rules: [{name: a, policy: gcra 1/m, by: [path, ip]}, {name: b, policy: gcra 1/m, by: header:X-Key}, {name: c, policy: gcra 1/m}, " +
		"{name: d, policy: gcra 1/m, by: header:X-Key, missing: deny}]\n"
	exitCode, out, errs := clitest.Execute(t, rules, "check", "-")
	require.Zero(t, exitCode, "a warning is no fault")
	require.Contains(t, out, "standard input: 4 rules")
	require.Equal(t, "standard input: warning: no proxy is trusted; behind a proxy, "+
		"all requests that are limited by ip share one limit under these rules: a, b; add the proxy's address to trusted, or write trusted: [] if clients connect directly\n", errs)
	for _, silent := range []string{"trusted: []\n" + rules, "trusted: 10.0.0.1\n" + rules, "rules: [{name: c, policy: gcra 1/m, by: path}]"} {
		clitest.Ok(t, silent, "check", "-")
	}
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

func TestInvalidCommandLines(t *testing.T) {
	clitest.Transcript(t, "failures.txt", map[string]string{"access.log": clitest.FourLines, "limits.gz": clitest.Gzipped(clitest.OneRule)})
}

func TestMain(m *testing.M) { clitest.Main(m, Command) }
