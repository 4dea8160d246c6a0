package suggest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestSuggestionsForTheSample(t *testing.T) {
	curve := filepath.Join(t.TempDir(), "curve.svg")
	exitCode, out, errs := clitest.Execute(t, "", "suggest", "--top", "3", "--out", curve)
	require.Zero(t, exitCode, errs)
	require.Empty(t, errs)
	clitest.Golden(t, "suggest.txt", out)
	for _, word := range []string{"Share of requests denied, by number", "the bundled sample log", "limited by ip",
		"gcra ?/m, found: 63", "movingwindow ?/m, found: 85", "the goal: at most 0.1% denied", "0%", "100%"} {
		require.Contains(t, string(clitest.Read(t, curve)), word)
	}
	clitest.Golden(t, "suggest.json", clitest.Ok(t, "", "suggest", "--json", "--top", "3", "--untouched", "99%", "-p", "movingwindow ?/m", "-p", "gcra ?/m burst=1"))
}

func TestSuggestionsForRules(t *testing.T) {
	clitest.Golden(t, "suggest_rules.txt", clitest.Ok(t, "", "suggest", "--config", clitest.ExampleConfig, "--top", "3"))
	out := clitest.Ok(t, "", "suggest", "--config", clitest.ExampleConfig, "--top", "1", "--untouched", "95%", "--json")
	clitest.Golden(t, "suggest_rules.json", out)
}

// suggestions runs sluice suggest --json and returns what it found.
func suggestions(t *testing.T, log string, args ...string) Report {
	t.Helper()
	var r Report
	require.NoError(t, json.Unmarshal([]byte(clitest.Ok(t, log, append([]string{"suggest", "--json"}, args...)...)), &r))
	return r
}

func TestLogsOfOneRequest(t *testing.T) {
	line, _, _ := strings.Cut(clitest.FourLines, "\n")
	out := clitest.Ok(t, line+"\n", "suggest", "--out", filepath.Join(t.TempDir(), "a.svg"), "-")
	require.Contains(t, out, "1 request, ")
	require.Contains(t, out, "  gcra 1/m  ")
	require.Contains(t, out, "gcra ?/m: 1 is the smallest number of all\n")
	require.NotContains(t, out, "one less")
}

// TestRequestsThatWereLimitedAreReported: they make the numbers too low.
func TestRequestsThatWereLimitedAreReported(t *testing.T) {
	log := strings.Replace(clitest.FourLines, `" 200 `, `" 429 `, 2)
	require.EqualValues(t, 2, suggestions(t, log, "-").Limited)
	require.Contains(t, clitest.Ok(t, log, "suggest", "-"), "2 requests of the log got status 429: a limit was already in force")
	require.NotContains(t, clitest.Ok(t, clitest.FourLines, "suggest", "-"), "429")
}

// TestCurveShowsTheUnitOfTheGoal: of 8 requests of 3 clients, 1 per hour denies 5 requests of 3 clients.
func TestCurveShowsTheUnitOfTheGoal(t *testing.T) {
	for of, want := range map[string]string{"requests": "62.50%", "clients": "100.00%"} {
		out := clitest.Ok(t, clitest.FourLines+strings.ReplaceAll(clitest.FourLines, "192.0.2.1", "192.0.2.3"), "suggest", "-p", "fixedwindow ?/h", "--of", of, "-")
		require.Regexp(t, `share of `+of+` denied if \? is +fixedwindow \?/h\n  1 +`+want, out)
	}
}

// TestRowsWithoutAShareAreLeftOut: the curve begins at about a hundredth of the number found.
func TestRowsWithoutAShareAreLeftOut(t *testing.T) {
	out := clitest.Ok(t, strings.Repeat(clitest.FourLines, 200), "suggest", "--untouched", "100%", "--reorder", "1h", "-p", "fixedwindow ?/h", "-")
	require.Contains(t, out, "fixedwindow 600/h")
	require.NotRegexp(t, `(?m)^  [0-9]+ +-$`, out)
}

// TestIPv6AddressesAreReported: a rule by ip needs a larger limit than suggest finds for one address.
func TestIPv6AddressesAreReported(t *testing.T) {
	log := strings.ReplaceAll(clitest.FourLines, "192.0.2.", "2001:db8::")
	want := "4 requests of the log came from IPv6 addresses. Here each address is a client.\nA rule by ip limits a whole /64. To find its limit, use --config.\n"
	require.Contains(t, clitest.Ok(t, log, "suggest", "-"), want)
	require.Contains(t, clitest.Ok(t, log, "suggest", "--by", "ip+path", "-"), want)
	require.NotContains(t, clitest.Ok(t, log, "suggest", "--by", "path", "-"), "came from IPv6")
	require.NotContains(t, clitest.Ok(t, clitest.FourLines, "suggest", "-"), "came from IPv6")
	require.NotContains(t, clitest.Ok(t, log, "suggest", "--config", clitest.Write(t, "limits.yaml", clitest.OneRule), "-"), "came from IPv6")
}

func TestPeriodOfTheDefaults(t *testing.T) {
	for _, s := range suggestions(t, clitest.FourLines, "--per", "90m", "-").Suggestions {
		require.Contains(t, s.Spec, " ?/1h30m")
	}
}

func TestNoNumberMeetsTheGoal(t *testing.T) {
	log := strings.ReplaceAll(clitest.FourLines, "00:00:01", "00:00:00")
	out := clitest.Ok(t, log, "suggest", "-p", "gcra ?/m burst=1", "-")
	require.Contains(t, out, "gcra ?/m burst=1: no number meets the goal; even gcra 30/m burst=1 denies 1 request of 1 client (75.000% untouched)")
	require.NotContains(t, out, "policy found")
	require.NotContains(t, out, "longest wait")
	s := suggestions(t, log, "-p", "gcra ?/m burst=1", "-").Suggestions[0]
	require.False(t, s.Found)
	require.Nil(t, s.Tighter)
}

func TestSuggestedPolicyHasTheCost(t *testing.T) {
	out := clitest.Ok(t, clitest.FourLines, "suggest", "-p", "all(gcra ?/s; gcra 3/m) cost=2", "--untouched", "50%", "-")
	require.Regexp(t, `(?m)^  all\(gcra \d+/s; gcra 3/m\) cost=2 .* \d in any second `, out)
}

func TestIrregularPoliciesAreReported(t *testing.T) {
	var log strings.Builder
	for _, second := range []int{0, 5, 15, 35, 35, 40, 45} {
		fmt.Fprintf(&log, `192.0.2.1 - - [01/Jan/2000:00:00:%02d +0000] "GET / HTTP/1.1" 200 1`+"\n", second)
	}
	const spec = "tokenbucket ?/20s burst=3 refill=interval"
	require.Contains(t, clitest.Ok(t, log.String(), "suggest", "-p", spec, "-"),
		spec+": a larger number is not always looser here; tokenbucket 7/20s burst=3 refill=interval denies 1 request of 1 client, which is more than the goal allows")
}

func TestInvalidCommandLinesOfSuggest(t *testing.T) {
	log := clitest.Write(t, "access.log", clitest.FourLines)
	trace := clitest.Write(t, "a.trace", "policy gcra 1/s\n@0s a 1\n")
	good := clitest.Write(t, "limits.yaml", clitest.OneRule)
	share := "want a percentage above 0% and at most 100%, such as 99.9%"
	clitest.RequireFailures(t, map[string]clitest.Failure{
		"share of 0":            {[]string{"suggest", "--untouched", "0%", log}, 2, []string{`--untouched "0%": ` + share}},
		"share without %":       {[]string{"suggest", "--untouched", "99.9", log}, 2, []string{`--untouched "99.9": ` + share + "; did you mean 99.9%?"}},
		"unknown unit":          {[]string{"suggest", "--of", "keys", log}, 2, []string{`--of "keys" is not known; want requests or clients`}},
		"no mark":               {[]string{"suggest", "-p", "gcra 10/m", log}, 2, []string{"--policy: the policy has no ?", "such as gcra ?/m", "\n  gcra 10/m\n  ^^^^^^^^^\n"}},
		"two marks":             {[]string{"suggest", "-p", "gcra ?/m burst=?", log}, 2, []string{"a second ?", "\n  gcra ?/m burst=?\n                 ^\n"}},
		"period of 0":           {[]string{"suggest", "--per", "0s", log}, 2, []string{"--per 0s: want a period from 1us to 26062d in whole microseconds"}},
		"part of a microsecond": {[]string{"suggest", "--per", "1500ns", log}, 2, []string{"--per 1.5µs: want a period from 1us to 26062d in whole microseconds"}},
		"period and policy":     {[]string{"suggest", "--per", "1h", "-p", "gcra ?/m", log}, 2, []string{"--per and -p exclude each other", "gcra ?/h"}},
		"period and rules":      {[]string{"suggest", "--per", "1h", "--config", good, log}, 2, []string{"--per and --config exclude each other"}},
		"trace":                 {[]string{"suggest", trace}, 2, []string{"a.trace is a trace, and suggest reads access logs; name an access log"}},
	})
}

// TestTooManyRequestsAreAnErrorWithARemedy: the memory is 1 GiB, and here 1 MiB.
func TestTooManyRequestsAreAnErrorWithARemedy(t *testing.T) {
	config := clitest.Write(t, "limits.yaml", clitest.OneRule)
	var log strings.Builder
	for i := range 7000 { // each client takes over 150 bytes
		fmt.Fprintf(&log, "{\"time\":946684800,\"ip\":\"10.0.%d.%d\"}\n", i/250, i%250)
	}
	for _, args := range [][]string{nil, {"--config", config}} {
		p := suggestRun{memory: 1 << 20}
		flags := pflag.NewFlagSet("suggest", pflag.ContinueOnError)
		p.Define(flags)
		require.NoError(t, flags.Parse(args))
		var out, errs bytes.Buffer
		err := p.run(t.Context(), []string{"-"}, cli.Streams{In: strings.NewReader(log.String()), Out: &out, Err: &errs})
		require.ErrorContains(t, err, "the requests do not fit into 1 MiB of memory; name fewer files, or pass a part of the log")
		require.Empty(t, out.String())
	}
}

func TestCurveOfAGoalThatIsNotMet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.svg")
	clitest.Ok(t, strings.ReplaceAll(clitest.FourLines, "00:00:01", "00:00:00"), "suggest", "--out", path, "--of", "clients", "-p", "gcra ?/m burst=1", "-")
	svg := string(clitest.Read(t, path))
	require.Contains(t, svg, "Share of clients denied, by number")
	require.NotContains(t, svg, "found")
}

func TestMembersOfTheJSONAreThoseOfTheHelp(t *testing.T) {
	damaged := clitest.Write(t, "cut.gz", clitest.Gzipped(clitest.FourLines)[:100])
	rules := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcra 1/m}]")
	clitest.RequireDocumented(t, help, clitest.Ok(t, "", "suggest", "--json", "--untouched", "50%", damaged),
		clitest.Ok(t, "", "suggest", "--json", "--config", rules, damaged))
}
