package suggest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

// ruleSuggestions runs sluice suggest --config and returns what it found.
func ruleSuggestions(t *testing.T, file, log string, args ...string) Report {
	t.Helper()
	args = append([]string{"suggest", "--json", "--config", clitest.Write(t, "limits.yaml", file)}, args...)
	if log != "" {
		args = append(args, "-")
	}
	var r Report
	require.NoError(t, json.Unmarshal([]byte(clitest.Ok(t, log, args...)), &r))
	return r
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
	log := clitest.PartOfSample(t)
	// alone replays the rules in shadow mode, so that each decides as if there were no other.
	alone := func(policies []string) []replay.JSONRule {
		file := strings.ReplaceAll(strings.ReplaceAll(with(policies), ", shadow: true", ""), "}", ", shadow: true}")
		return replayOfRules(t, file, log).Rules
	}
	for _, goal := range [][]string{{"--untouched", "97%"}, {"--untouched", "80%", "--of", "clients"}} {
		r := ruleSuggestions(t, with(policies), log, goal...)
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
func replayOfRules(t *testing.T, file, log string) (r replay.JSONRulesReport) {
	t.Helper()
	out := clitest.Ok(t, log, "replay", "--json", "--config", clitest.Write(t, "limits.yaml", file), "-")
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return r
}

// TestPartsOfAStackAreSearchedAlone: the policy for the file has the counts of all parts.
func TestPartsOfAStackAreSearchedAlone(t *testing.T) {
	const file = "rules: [{name: a, policy: 'all(gcra 9/s burst=3; fixedwindow 9/h)', by: ip}]"
	r := ruleSuggestions(t, file, clitest.FourLines, "--untouched", "100%").Rules[0]
	require.Len(t, r.Suggestions, 2)
	require.Equal(t, "gcra ?/s burst=3", r.Suggestions[0].Spec)
	require.Equal(t, "all(gcra 1/s burst=3; fixedwindow 3/h)", r.Policy)
	out := clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", file), "-")
	require.Contains(t, out, "a, part 1 of 2")
	require.Contains(t, out, "policies for a copy of limits.yaml:\n  a  all(gcra 1/s burst=3; fixedwindow 3/h)\n")

	punished := strings.NewReplacer("all(", "penalty(all(", "/h)", "/h); for=1h)").Replace(file)
	r = ruleSuggestions(t, punished, clitest.FourLines, "--untouched", "100%").Rules[0]
	require.Len(t, r.Suggestions, 2)
	require.Equal(t, "penalty(fixedwindow ?/h; for=1h)", r.Suggestions[1].Spec)
	require.Equal(t, "penalty(all(gcra 1/s burst=3; fixedwindow 3/h); for=1h)", r.Policy)
}

// TestRulesWithoutASuggestionKeepTheirPolicy: one applies to no request, and for the other no count
// is enough.
func TestRulesWithoutASuggestionKeepTheirPolicy(t *testing.T) {
	const file = "rules: [{name: a, policy: gcra 7/m, paths: [/none]}, {name: b, policy: gcra 7/h burst=1}]"
	r := ruleSuggestions(t, file, clitest.FourLines)
	require.Empty(t, r.Rules[0].Suggestions)
	require.Equal(t, "gcra 7/m", r.Rules[0].Policy)
	require.False(t, r.Rules[1].Suggestions[0].Found)
	require.Equal(t, "gcra 7/h burst=1", r.Rules[1].Policy)
	require.Equal(t, r.Now, r.Together)
	out := clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", file), "-")
	require.Contains(t, out, "a: no request to find a count with, so its policy stays as it is\n")
	require.Contains(t, out, "b: no number meets the goal; even gcra ")
	require.Contains(t, out, "policies for a copy of limits.yaml:\n  a  gcra 7/m, as before\n  b  gcra 7/h burst=1, as before\n")

	const none = "rules: [{name: a, policy: gcra 7/m, paths: [/none]}]"
	clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", none), "--out", t.TempDir()+"/a.svg", "-")
}

// TestRefusedRequestsAreLeftOut: missing: deny denies them under each count, so the goal does not count
// them.
func TestRefusedRequestsAreLeftOut(t *testing.T) {
	const file = "rules: [{name: a, policy: gcra 7/m, by: user, missing: deny}]"
	r := ruleSuggestions(t, file, clitest.FourLines, "--untouched", "100%")
	require.EqualValues(t, 1, r.Rules[0].Refused)
	require.EqualValues(t, 3, r.Rules[0].Suggestions[0].Requests)
	require.True(t, r.Rules[0].Suggestions[0].Found)
	require.EqualValues(t, 1, r.Together.Denied)
	require.Contains(t, clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", file), "-"),
		"a: it denies 1 request without its field, whatever the count; the goal leaves them out\n")
}

func TestRulesWithCountAreLeftOut(t *testing.T) {
	with := strings.Replace(clitest.OneRule, "[", "[{name: login, policy: gcra 2/m, count: 401}, ", 1)
	want, got := ruleSuggestions(t, clitest.OneRule, clitest.FourLines), ruleSuggestions(t, with, clitest.FourLines)
	require.Equal(t, []string{"login"}, got.LeftOut)
	got.LeftOut = want.LeftOut
	require.Equal(t, want, got)
	const reason = "rule login is left out: it has count, and this command cannot give charges back; sluice replay can"
	out := clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", with), "-")
	require.Contains(t, out, "\n"+reason+"\n")
	alone := clitest.Write(t, "limits.yaml", "rules: [{name: running, policy: inflight 2 ttl=30s}, {name: login, policy: gcra 2/m, count: 401}]")
	exitCode, _, errs := clitest.Execute(t, clitest.FourLines, "suggest", "--config", alone, "-")
	require.Equal(t, 2, exitCode)
	require.Contains(t, errs, "limits.yaml has no rule for this command: rule login has count, which this command cannot replay (sluice replay can); add a rule without count")

	estimated := ruleSuggestions(t, "rules: [{name: tokens, policy: gcra 9/m, cost: {estimate: 3, actual: header:used}}]", clitest.FourLines)
	require.EqualValues(t, 3, estimated.Rules[0].Cost)
}

func TestRulesForRequestsAtTheSameTimeAreLeftOut(t *testing.T) {
	with := strings.Replace(clitest.OneRule, "[", "[{name: running, policy: inflight 2 ttl=30s}, ", 1)
	want, got := ruleSuggestions(t, clitest.OneRule, clitest.FourLines), ruleSuggestions(t, with, clitest.FourLines)
	require.Equal(t, []string{"running"}, got.LeftOut)
	got.LeftOut = want.LeftOut
	require.Equal(t, want, got)
	out := clitest.Ok(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", with), "-")
	require.Contains(t, out, "\nrule running is left out: inflight 2 ttl=30s limits requests at the same time, and access logs do not show when a request ends\n")

	exitCode, _, errs := clitest.Execute(t, clitest.FourLines, "suggest", "--config", clitest.Write(t, "limits.yaml", "rules: [{name: running, policy: inflight 2 ttl=30s}]"), "-")
	require.Equal(t, 2, exitCode)
	require.Contains(t, errs, "limits.yaml has only rules for requests at the same time")
}

func TestProxiedRequestsAreReportedBySuggest(t *testing.T) {
	require.EqualValues(t, 3, ruleSuggestions(t, "trusted: 192.0.2.1\n"+clitest.OneRule, clitest.FourLines).Proxied)
}
