package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

// The rules before and after a change of the example.
var (
	PlanOld = filepath.Join("testdata", "plan.old.yaml")
	PlanNew = filepath.Join("testdata", "plan.new.yaml")
)

func TestPlanOfTheSample(t *testing.T) {
	for name, flags := range map[string][]string{
		"plan.txt":  {"--top", "2", "--max-newly-denied", "50%"},
		"plan.md":   {"--top", "2", "--max-newly-denied", "50%", "--markdown"},
		"plan.json": {"--top", "1", "--max-newly-denied", "50%", "--json"},
	} {
		clitest.Golden(t, name, clitest.Ok(t, "", append([]string{"plan", PlanOld, PlanNew}, flags...)...))
	}
}

func TestPlans(t *testing.T) {
	running := func(rule string) string {
		return strings.Replace(clitest.OneRule, "[", "[{name: running, policy: "+rule+"}, ", 1)
	}
	settings := "trusted: [10.0.0.0/24, 192.0.2.1]\nipv6_bits: 48\n" + clitest.OneRule
	cut := clitest.Gzipped(clitest.FourLines)
	clitest.Transcript(t, "plans.txt", map[string]string{
		"access.log": clitest.FourLines, "noise.log": "what is this\n" + clitest.FourLines, "cut.gz": cut[:len(cut)-4],
		"one.yaml": clitest.OneRule, "commented.yaml": "# Only a comment.\ntrusted: []\n" + clitest.OneRule, "proxy.yaml": "trusted: 192.0.2.1\n" + clitest.OneRule,
		"fixed.yaml": oneRuleOf("policy: fixedwindow 1/m, by: ip"), "host.yaml": oneRuleOf("policy: gcra 2/m, by: [ip, host]"),
		"settings.yaml": settings, "settings56.yaml": strings.Replace(settings, "48", "56", 1),
		"running.yaml": running("inflight 2 ttl=30s"), "same.yaml": running("inflight 2 ttl=30s"), "running3.yaml": running("inflight 3 ttl=30s"), "by-ip.yaml": running("inflight 2 ttl=30s, by: ip"),
		"only-running.yaml": "rules: [{name: running, policy: inflight 2 ttl=30s}]",
	})
}

func oneRuleOf(text string) string { return "rules: [{name: client, " + text + "}]\n" }

// TestCountsOfPlans: a question has a log, the rules before and after, and flags. Fields without braces are those of the rule client.
func TestCountsOfPlans(t *testing.T) {
	golden, err := filepath.Abs(filepath.Join("testdata", "counts.txt"))
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	write := func(name, rules string) {
		list := strings.LastIndex(rules, "\n") + 1
		if head := rules[:list]; rules[list] == '{' {
			rules = head + "rules: [" + rules[list:] + "]\n"
		} else {
			rules = head + oneRuleOf(rules[list:])
		}
		require.NoError(t, os.WriteFile(name, []byte(rules), 0o600))
	}
	logs := map[string]string{
		"four lines": clitest.FourLines,
		"logins":     logins,
		"tenants":    tenants,
		"IPv6":       strings.NewReplacer("192.0.2.1", "2001:db8::1, 10.0.0.1", "192.0.2.2", "2001:db8::ffff, 10.0.0.1").Replace(clitest.FourLines),
	}
	tracetest.Answers(t, golden, func(question string) string {
		words := strings.Split(question, " | ")
		write("old.yaml", words[1])
		write("new.yaml", words[2])
		args := append([]string{"plan", "old.yaml", "new.yaml", "-"}, strings.Fields(strings.Join(words[3:], " "))...)
		return strings.TrimRight(clitest.Ok(t, logs[words[0]], args...), "\n")
	})
}

const (
	logins = `192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:01 +0000] "POST /login HTTP/1.1" 401 1
192.0.2.1 - - [01/Jan/2000:00:00:02 +0000] "POST /login HTTP/1.1" 200 1
`
	tenants = `{"time": 946684800, "ip": "192.0.2.1", "tenant": "x"}
{"time": 946684801, "ip": "192.0.2.1", "tenant": "x"}
{"time": 946684802, "ip": "192.0.2.1", "tenant": "y"}
{"time": 946684803, "ip": "192.0.2.2"}
`
)

// TestPlanAgreesWithTwoReplays: the counts of plan are those of a replay of each file.
func TestPlanAgreesWithTwoReplays(t *testing.T) {
	r := clitest.JSON[planReport](t, "", "plan", "--json", "--top", "1000", PlanOld, PlanNew)
	require.Positive(t, r.NewlyDenied)
	require.Positive(t, r.NewlyAllowed)
	var denied [2]int64
	for i, side := range []struct {
		name   string
		counts planFile
		rule   func(*ruleChange) *ruleSide
	}{
		{PlanOld, r.Old, func(c *ruleChange) *ruleSide { return c.Old }},
		{PlanNew, r.New, func(c *ruleChange) *ruleSide { return c.New }},
	} {
		alone := clitest.JSON[replay.JSONRulesReport](t, "", "replay", "--json", "--config", side.name)
		require.Equal(t, side.name, side.counts.File)
		require.Equal(t, alone.Together.Allowed, side.counts.Allowed)
		require.Equal(t, alone.Together.Denied, side.counts.Denied)
		require.Equal(t, alone.Counts, r.Counts)
		denied[i] = alone.Together.Denied
		rules := make(map[string]ruleSide)
		for j := range r.Rules {
			if s := side.rule(&r.Rules[j]); s != nil {
				rules[r.Rules[j].Rule] = *s
			}
		}
		require.Len(t, rules, len(alone.Rules))
		for _, want := range alone.Rules {
			require.Equal(t, ruleSide{want.Policy, want.By, want.Cost, want.Shadow, want.Requests, want.Denied, want.Keys, "request", nil}, rules[want.Rule])
		}
	}
	require.Equal(t, denied[1]-denied[0], r.NewlyDenied-r.NewlyAllowed)
	var sum backtest.ClientChange
	for _, c := range r.MostNewlyDenied {
		sum.NewlyDenied += c.NewlyDenied
	}
	for _, c := range r.MostNewlyAllowed {
		sum.NewlyAllowed += c.NewlyAllowed
	}
	require.Equal(t, backtest.ClientChange{NewlyDenied: r.NewlyDenied, NewlyAllowed: r.NewlyAllowed}, sum)
	require.Len(t, r.MostNewlyDenied, int(r.Clients.NewlyDenied))
	require.Len(t, r.MostNewlyAllowed, int(r.Clients.NewlyAllowed))
}

// TestStricterRulesCanAllowMore: the new rule denies the second request, so the third finds a unit of site. The report explains that, but
// only if no looser rule newly allows the requests. A bound does not show how long a penalty is, or when windows begin, so rules with
// other options of this kind are not called stricter.
func TestStricterRulesCanAllowMore(t *testing.T) {
	at := func(times ...string) (log string) {
		for _, request := range times {
			clock, path, _ := strings.Cut(request, " ")
			log += `192.0.2.1 - - [01/Jan/2000:` + clock + ` +0000] "GET ` + path + ` HTTP/1.1" 200 1` + "\n"
		}
		return log
	}
	seconds, hours := at("00:00:00 /a", "00:00:01 /a", "00:00:02 /a", "00:00:03 /b"), at("00:00:00 /a", "00:00:01 /a", "00:30:00 /a", "20:00:00 /a")
	site := func(rest string) string { return "rules:\n- {name: site, policy: " + rest + "}\n" }
	const path = "- {name: path, policy: fixedwindow 1/h, by: path}\n"
	const reason = "\nAn unchanged or stricter rule can newly allow requests: a denied request is not charged, so its units stay for other requests.\n"
	for _, c := range []struct {
		log, before, after string
		allowed            int64
		explained          bool
	}{
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 3/h") + path, 1, true},
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 2/h") + path, 1, true},
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 4/h, cost: 2") + path, 1, true},
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 4/h") + path, 1, false},
		{seconds, site("fixedwindow 3/h"), site("gcra 3/h") + path, 1, false},
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 2/h, by: path"), 1, false},
		{seconds, site("fixedwindow 3/h"), site("fixedwindow 2/h, shadow: true"), 1, false},
		{seconds, site("fixedwindow 3/h"), "ipv6_bits: 48\n" + site("fixedwindow 3/h") + path, 1, false},
		{seconds, site("fixedwindow 3/h"), "rules:\n" + path, 1, false},
		{seconds, site("fixedwindow 4/h"), site("fixedwindow 3/h"), 0, false},
		{hours, site("penalty(fixedwindow 1/m; for=1h)"), site("penalty(fixedwindow 1/m; for=1s)"), 1, false},
		{hours, site("penalty(gcra 2/m burst=1; for=1h)"), site("penalty(gcra 1/m burst=1; for=10m)"), 1, false},
		{hours, site("fixedwindow 2/h align=clock"), site("fixedwindow 2/h align=clock offset=10m"), 1, false},
		{hours, site("fixedwindow 3/d align=clock"), site("fixedwindow 1/12h align=clock"), 1, false},
		{hours, site("calendar 3/day"), site("calendar 3/day tz=Asia/Tokyo"), 1, false},
	} {
		args := []string{"plan", clitest.Write(t, "old.yaml", c.before), clitest.Write(t, "new.yaml", c.after), "-"}
		require.Equal(t, c.allowed, clitest.JSON[planReport](t, c.log, append(args, "--json")...).NewlyAllowed, c.after)
		for _, form := range []string{"--markdown=false", "--markdown"} {
			require.Equal(t, c.explained, strings.Contains(clitest.Ok(t, c.log, append(args, form)...), reason), "%s: %s", form, c.after)
		}
	}
}

// TestThresholdsDecideTheExitStatus: a question has flags. The answer has the exit status, the error, and how each form of the report names the
// thresholds.
func TestThresholdsDecideTheExitStatus(t *testing.T) {
	files := map[string]string{
		"strict": clitest.Write(t, "strict.yaml", oneRuleOf("policy: fixedwindow 1/h, by: ip")),
		"wide":   clitest.Write(t, "wide.yaml", oneRuleOf("policy: fixedwindow 9/h, by: ip")),
	}
	tracetest.Answers(t, filepath.Join("testdata", "thresholds.txt"), func(question string) string {
		words := strings.Fields(question)
		args := append([]string{"plan", files[words[0]], files[words[1]], "-"}, words[2:]...)
		exitCode, text, errs := clitest.Execute(t, clitest.FourLines, args...)
		for line := range strings.Lines(errs) {
			require.Contains(t, text, strings.TrimPrefix(line, "sluice: "), "the report names the threshold too")
		}
		answer := fmt.Sprint(exitCode, " ", errs)
		for _, form := range []string{"--markdown", "--json"} {
			code, out, same := clitest.Execute(t, clitest.FourLines, append(args, form)...)
			require.Equal(t, []any{exitCode, errs}, []any{code, same}, form)
			if form == "--markdown" {
				verdict, _, _ := strings.Cut(out, "Of 4 requests, ")
				answer = strings.TrimSpace(answer) + "\n" + strings.TrimSpace(verdict)
				continue
			}
			var r planReport
			require.NoError(t, json.Unmarshal([]byte(out), &r))
			require.Equal(t, exitCode == 1, slices.ContainsFunc(r.Thresholds, func(t threshold) bool { return t.Exceeded }))
		}
		return strings.TrimRight(answer, "\n")
	})
}

func TestMembersOfTheJSONAreThoseOfTheHelp(t *testing.T) {
	cut := clitest.Gzipped(clitest.FourLines)
	clitest.RequireDocumented(t, help, string(clitest.Read(t, filepath.Join("testdata", "plan.json"))),
		clitest.Ok(t, "", "plan", "--json", PlanOld, PlanNew, clitest.Write(t, "cut.gz", cut[:len(cut)-4])))
}

func TestPlanReadsEitherFileFromStandardInput(t *testing.T) {
	file, log := clitest.Write(t, "limits.yaml", oneRuleOf("policy: fixedwindow 9/h, by: ip")), clitest.Write(t, "access.log", clitest.FourLines)
	out := clitest.Ok(t, clitest.OneRule, "plan", "-", file, log)
	require.Contains(t, out, "OLD standard input")
	require.Contains(t, out, "Of 4 requests, 0 are newly denied (0.00%, 0 clients) and 2 are newly allowed (50.00%, 1 client).")
	out = clitest.Ok(t, clitest.OneRule, "plan", file, "-", log)
	require.Contains(t, out, "NEW standard input")
	require.Contains(t, out, "2 are newly denied")
	out = clitest.Ok(t, clitest.FourLines, "plan", file, clitest.Pipe(t, clitest.OneRule), "-", clitest.Write(t, "b.log.gz", clitest.Gzipped(clitest.FourLines)))
	require.Contains(t, out, "standard input and 1 more: 8 requests")
}

// TestInvalidCommandLines: plan has exit status 2 for each failure, because 1 means that a threshold is exceeded.
func TestInvalidCommandLines(t *testing.T) {
	odd := func(text string) string { return oneRuleOf("policy: gcra 1/s, " + text) }
	clitest.Transcript(t, "failures.txt", map[string]string{
		"access.log": clitest.FourLines, "empty.log": "", "a.trace": clitest.OkTrace,
		"limits.yaml": clitest.OneRule, "other.yaml": oneRuleOf("policy: gcra 2/m, by: ip"),
		"colour.yaml": odd("by: colour"), "header.yaml": odd("by: header:x-team"), "a.yaml": odd("by: header:a"), "b.yaml": odd("by: header:b"), "bytes.yaml": odd("cost: bytes"),
		"faults.yaml": "rules:\n- {name: a, policy: grca 1/s}\n- {policy: gcra 1/s, cost: 0}\n",
	})
}

// TestTooManyClientsAreAnErrorWithARemedy: the limit is 10 million, and here 5. The log has two
// clients, and each is a key of both rules.
func TestTooManyClientsAreAnErrorWithARemedy(t *testing.T) {
	rules := []string{clitest.Write(t, "old.yaml", oneRuleOf("policy: gcra 1/m, by: ip")), clitest.Write(t, "new.yaml", oneRuleOf("policy: gcra 2/m, by: ip")), "-"}
	for maxKeys, want := range map[int64]string{5: "at most 5 clients and keys of rules in memory; name fewer files, or pass a part of the log", 6: ""} {
		p := planRun{maxKeys: maxKeys}
		p.Define(pflag.NewFlagSet("plan", pflag.ContinueOnError))
		var out, errs bytes.Buffer
		err := p.run(t.Context(), rules, cli.Streams{In: strings.NewReader(clitest.FourLines + clitest.FourLines), Out: &out, Err: &errs})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.Empty(t, out.String())
	}
}

func TestMain(m *testing.M) { clitest.Main(m, Command, replay.Command) }
