package suggest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/check"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/plan"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
	testsample "github.com/sluice-go/sluice/internal/testing/sample"
)

func TestSuggestionsForTheSample(t *testing.T) {
	curve := filepath.Join(t.TempDir(), "curve.svg")
	clitest.Golden(t, "suggest.txt", clitest.Ok(t, "", "suggest", "--top", "3", "--out", curve))
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

func TestSuggestions(t *testing.T) {
	line, _, _ := strings.Cut(clitest.FourLines, "\n")
	var irregular strings.Builder
	for _, second := range []int{0, 5, 15, 35, 35, 40, 45} {
		fmt.Fprintf(&irregular, `192.0.2.1 - - [01/Jan/2000:00:00:%02d +0000] "GET / HTTP/1.1" 200 1`+"\n", second)
	}
	with := func(rule string) string { return strings.Replace(clitest.OneRule, "[", "[{"+rule+"}, ", 1) }
	clitest.Transcript(t, "suggestions.txt", map[string]string{
		"access.log": clitest.FourLines, "limits.yaml": clitest.OneRule, "one.log": line + "\n", "irregular.log": irregular.String(),
		"limited.log": strings.Replace(clitest.FourLines, `" 200 `, `" 429 `, 2), "ipv6.log": strings.ReplaceAll(clitest.FourLines, "192.0.2.", "2001:db8::"),
		"twice.log":    strings.ReplaceAll(clitest.FourLines, "00:00:01", "00:00:00"),
		"stack.yaml":   "rules: [{name: a, policy: 'all(gcra 9/s burst=3; fixedwindow 9/h)', by: ip}]",
		"penalty.yaml": "rules: [{name: a, policy: 'penalty(all(gcra 9/s burst=3; fixedwindow 9/h); for=1h)', by: ip}]",
		"none.yaml":    "rules: [{name: a, policy: gcra 7/m, paths: [/none]}, {name: b, policy: gcra 7/h burst=1}]",
		"nothing.yaml": "rules: [{name: a, policy: gcra 7/m, paths: [/none]}]",
		"deny.yaml":    "rules: [{name: a, policy: gcra 7/m, by: user, missing: deny}]",
		"count.yaml":   with("name: login, policy: gcra 2/m, count: 401"), "running.yaml": with("name: running, policy: inflight 2 ttl=30s"),
		"only-running.yaml": "rules: [{name: running, policy: inflight 2 ttl=30s}]", "no-rate.yaml": "rules: [{name: running, policy: inflight 2 ttl=30s}, {name: login, policy: gcra 2/m, count: 401}]",
		"estimate.yaml": "rules: [{name: tokens, policy: gcra 9/m, cost: {estimate: 3, actual: header:used}}]", "proxy.yaml": "trusted: 192.0.2.1\n" + clitest.OneRule,
	})
}

func TestInvalidCommandLines(t *testing.T) {
	clitest.Transcript(t, "failures.txt", map[string]string{"access.log": clitest.FourLines, "a.trace": clitest.OkTrace, "limits.yaml": clitest.OneRule})
}

// TestTooManyRequestsAreAnErrorWithARemedy: the memory is 1 GiB, and here 1 MiB. Each client takes over 150 bytes of it under each
// of two rules, which share it.
func TestTooManyRequestsAreAnErrorWithARemedy(t *testing.T) {
	twoRules := clitest.Write(t, "limits.yaml", "rules: [{name: a, policy: gcra 1/m, by: ip}, {name: b, policy: gcra 1/m, by: ip}]")
	for flag, clients := range map[string]int{"": 7000, "--config=" + twoRules: 3500} {
		var log strings.Builder
		for i := range clients {
			fmt.Fprintf(&log, "{\"time\":946684800,\"ip\":\"10.0.%d.%d\"}\n", i/250, i%250)
		}
		p := suggestRun{memory: 1 << 20}
		flags := pflag.NewFlagSet("suggest", pflag.ContinueOnError)
		p.Define(flags)
		require.NoError(t, flags.Parse(strings.Fields(flag)))
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

// TestReplayConfirmsTheSuggestionsForRules: each rule alone, with the policy found, meets the goal. With
// one unit less it does not. A replay of all rules gives the counts that suggest reports, with the policies
// found and with those of the file.
func TestReplayConfirmsTheSuggestionsForRules(t *testing.T) {
	const rules = `trusted: [10.0.0.0/24]
rules:
  - {name: client, policy: POLICY, by: ip}
  - {name: login, policy: POLICY, by: [ip, path], methods: [POST], paths: [/login, /cart]}
  - {name: search, policy: POLICY, cost: 10, paths: [/search]}
  - {name: user, policy: POLICY, by: user, missing: skip}
  - {name: named, policy: POLICY, by: [user, path], missing: deny, shadow: true}
  - {name: all, policy: POLICY}
`
	policies := []string{"gcra 100/m burst=90", "fixedwindow 5/h", "tokenbucket 200/m", "movingwindow 9/m slots=6", "gcra 3/m", "movingwindow 90/m"}
	with := func(policies []string) string {
		file := rules
		for _, p := range policies {
			file = strings.Replace(file, "POLICY", p, 1)
		}
		return file
	}
	log := partOfSample(t)
	// alone replays the rules in shadow mode, so that each decides as if there were no other.
	alone := func(policies []string) []replay.JSONRule {
		file := strings.ReplaceAll(strings.ReplaceAll(with(policies), ", shadow: true", ""), "}", ", shadow: true}")
		return replayOfRules(t, file, log).Rules
	}
	for _, goal := range [][]string{{"--untouched", "97%"}, {"--untouched", "80%", "--of", "clients"}} {
		r := clitest.JSON[Report](t, log, append([]string{"suggest", "--json", "--config", clitest.Write(t, "limits.yaml", with(policies)), "-"}, goal...)...)
		require.Len(t, r.Rules, len(policies))
		var found, tighter []string
		for _, rule := range r.Rules {
			require.Len(t, rule.Suggestions, 1)
			s := rule.Suggestions[0]
			require.True(t, s.Found, rule.Rule)
			require.Equal(t, s.Best.Spec, rule.Policy)
			found, tighter = append(found, rule.Policy), append(tighter, rule.Policy)
			if s.Tighter != nil {
				tighter[len(tighter)-1] = s.Tighter.Spec
			}
		}
		best, oneLess := alone(found), alone(tighter)
		for i, rule := range r.Rules {
			s := rule.Suggestions[0]
			require.Equal(t, s.Requests, best[i].Requests-rule.Refused, rule.Rule)
			require.Equal(t, s.Best.Denied, best[i].Denied-rule.Refused, rule.Rule)
			require.LessOrEqual(t, denials(&s.Best, goal), s.MaxDenied, rule.Rule)
			if s.Tighter != nil {
				require.Equal(t, s.Tighter.Denied, oneLess[i].Denied-rule.Refused, rule.Rule)
				require.Greater(t, denials(s.Tighter, goal), s.MaxDenied, rule.Rule)
			}
		}
		require.Equal(t, replayOfRules(t, with(found), log).Together, r.Together)
		require.Equal(t, replayOfRules(t, with(policies), log).Together, r.Now)
	}
}

// denials returns the denied requests of a candidate, or its denied clients if the goal counts these.
func denials(c *Candidate, goal []string) int64 {
	if slices.Contains(goal, "clients") {
		return c.ClientsDenied
	}
	return c.Denied
}

// replayOfRules replays a log under the rules of a file.
func replayOfRules(t *testing.T, file, log string) replay.JSONRulesReport {
	t.Helper()
	return clitest.JSON[replay.JSONRulesReport](t, log, "replay", "--json", "--config", clitest.Write(t, "limits.yaml", file), "-")
}

func TestMain(m *testing.M) { clitest.Main(m, Command, replay.Command, plan.Command, check.Command) }

// partOfSample returns the sample's text, or the first quarter of it, cut within a line, if tests should be brief.
func partOfSample(t *testing.T) string {
	t.Helper()
	z, err := gzip.NewReader(sample.Open())
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	if testsample.Brief() {
		text = text[:len(text)/4]
	}
	return string(text)
}
