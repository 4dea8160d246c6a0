package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
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
)

// The rules before and after a change of the example.
const planOld, planNew = "testdata/plan.old.yaml", "testdata/plan.new.yaml"

func TestPlanOfTheSample(t *testing.T) {
	for name, flags := range map[string][]string{
		"plan.txt":  {"--top", "2", "--max-newly-denied", "50%"},
		"plan.md":   {"--top", "2", "--max-newly-denied", "50%", "--markdown"},
		"plan.json": {"--top", "1", "--max-newly-denied", "50%", "--json"},
	} {
		clitest.Golden(t, name, clitest.Ok(t, "", append([]string{"plan", planOld, planNew}, flags...)...))
	}
}

// planOf compares two files on a log and returns the report in JSON.
func planOf(t *testing.T, before, after, log string, flags ...string) planReport {
	t.Helper()
	args := []string{"plan", "--json", clitest.Write(t, "old.yaml", before), clitest.Write(t, "new.yaml", after), "-"}
	return clitest.JSON[planReport](t, log, append(args, flags...)...)
}

// textOf compares two files on a log and returns the printed report.
func textOf(t *testing.T, before, after, log string, flags ...string) string {
	t.Helper()
	return clitest.Ok(t, log, append([]string{"plan", clitest.Write(t, "old.yaml", before), clitest.Write(t, "new.yaml", after), "-"}, flags...)...)
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
		"only-running.yaml": "rules: [{name: running, policy: inflight 2 ttl=30s}]", "two.yaml": strings.Replace(clitest.OneRule, "[", "[{name: minute, policy: fixedwindow 1/m, by: ip}, ", 1),
	})
}

// strictestOf returns the members of the strictest bounds.
func strictestOf(r planReport) (all []string) {
	for _, s := range r.Strictest {
		all = append(all, fmt.Sprint(s.Interval, " ", s.Bound, " ", s.Rule))
	}
	return all
}

func oneRuleOf(text string) string { return "rules: [{name: client, " + text + "}]\n" }

// TestPlanAgreesWithTwoReplays: the counts of plan are those of a replay of each file.
func TestPlanAgreesWithTwoReplays(t *testing.T) {
	r := clitest.JSON[planReport](t, "", "plan", "--json", "--top", "1000", planOld, planNew)
	require.Positive(t, r.NewlyDenied)
	require.Positive(t, r.NewlyAllowed)
	for _, side := range []struct {
		name   string
		counts planFile
		rule   func(*ruleChange) *ruleSide
	}{
		{planOld, r.Old, func(c *ruleChange) *ruleSide { return c.Old }},
		{planNew, r.New, func(c *ruleChange) *ruleSide { return c.New }},
	} {
		alone := clitest.JSON[replay.JSONRulesReport](t, "", "replay", "--json", "--config", side.name)
		require.Equal(t, side.name, side.counts.File)
		require.Equal(t, alone.Together.Allowed, side.counts.Allowed)
		require.Equal(t, alone.Together.Denied, side.counts.Denied)
		require.Equal(t, alone.Counts, r.Counts)
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
	require.Equal(t, r.New.Denied-r.Old.Denied, r.NewlyDenied-r.NewlyAllowed)
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

func TestEachFieldOfARuleIsCompared(t *testing.T) {
	before := `rules:
- {name: tried, policy: gcra 1/h, by: ip, shadow: true}
- {name: same, policy: gcra 5/m, by: ip, methods: [GET, POST], paths: [/b, /a]}
`
	after := `rules:
- {name: same, policy: gcra 5/m burst=5, by: ip, methods: [POST, GET, HEAD], paths: [/a, /b]}
- {name: tried, policy: gcra 2/h, by: [ip, path], cost: 2, methods: [GET], paths: [/a], except: {methods: [PUT], paths: [/b]}, shadow: false}
`
	r := planOf(t, before, after, clitest.FourLines)
	require.Equal(t, "unchanged", r.Rules[0].Change)
	require.Equal(t, []difference{
		{"policy", "gcra 1/h", "gcra 2/h"}, {"by", "ip", "ip+path"}, {"cost", "1", "2"},
		{"methods", "all", "GET, HEAD"}, {"paths", "all", "/a"}, {"except", "none", "/b, PUT"}, {"shadow", "true", "false"},
	}, r.Rules[1].Differences)
}

// TestStricterRulesCanAllowMore: the new rule denies the second request, so the last finds a unit of site. The report explains that,
// but only if no looser rule newly allows the requests. A bound does not show how long a penalty is, or when windows begin.
func TestStricterRulesCanAllowMore(t *testing.T) {
	log := func(requests ...string) (lines string) {
		for _, r := range requests {
			at, path, _ := strings.Cut(r, " ")
			lines += fmt.Sprintf("192.0.2.1 - - [01/Jan/2000:%s +0000] \"GET %s HTTP/1.1\" 200 1\n", at, path)
		}
		return lines
	}
	soon := log("00:00:00 /a", "00:00:01 /a", "00:00:02 /a", "00:00:03 /b")
	later := log("00:00:00 /a", "00:00:01 /a", "00:30:00 /a", "20:00:00 /a")
	site := func(rest string) string { return "rules:\n- {name: site, policy: " + rest + "}\n" }
	const path = "- {name: path, policy: fixedwindow 1/h, by: path}\n"
	const reason = "\nAn unchanged or stricter rule can newly allow requests: a denied request is not charged, so its units stay for other requests.\n"
	for _, c := range []struct {
		log, before, after string
		allowed, explained bool
	}{
		{soon, site("fixedwindow 3/h"), site("fixedwindow 3/h") + path, true, true},
		{soon, site("fixedwindow 3/h"), site("fixedwindow 2/h") + path, true, true},
		{soon, site("fixedwindow 3/h"), site("fixedwindow 4/h, cost: 2") + path, true, true},
		{soon, site("fixedwindow 3/h"), site("fixedwindow 4/h") + path, true, false},
		{soon, site("fixedwindow 3/h"), site("gcra 3/h") + path, true, false},
		{soon, site("fixedwindow 3/h"), site("fixedwindow 2/h, by: path"), true, false},
		{soon, site("fixedwindow 3/h"), site("fixedwindow 2/h, shadow: true"), true, false},
		{soon, site("fixedwindow 3/h"), "ipv6_bits: 48\n" + site("fixedwindow 3/h") + path, true, false},
		{soon, site("fixedwindow 3/h"), "rules:\n" + path, true, false},
		{soon, site("fixedwindow 4/h"), site("fixedwindow 3/h"), false, false},
		{later, site("penalty(fixedwindow 1/m; for=1h)"), site("penalty(fixedwindow 1/m; for=1s)"), true, false},
		{later, site("penalty(gcra 2/m burst=1; for=1h)"), site("penalty(gcra 1/m burst=1; for=10m)"), true, false},
		{later, site("fixedwindow 2/h align=clock"), site("fixedwindow 2/h align=clock offset=10m"), true, false},
		{later, site("fixedwindow 3/d align=clock"), site("fixedwindow 1/12h align=clock"), true, false},
		{later, site("calendar 3/day"), site("calendar 3/day tz=Asia/Tokyo"), true, false},
	} {
		require.Equal(t, c.allowed, planOf(t, c.before, c.after, c.log).NewlyAllowed > 0, c.after)
		for _, form := range []string{"--markdown=false", "--markdown"} {
			require.Equal(t, c.explained, strings.Contains(textOf(t, c.before, c.after, c.log, form), reason), "%s: %s", form, c.after)
		}
	}
}

func TestStrictestBoundLeavesOutRulesThatDenyNothing(t *testing.T) {
	after := `rules:
- {name: wide, policy: gcra 9/m burst=1, by: ip}
- {name: cheap, policy: fixedwindow 40/h, by: ip, cost: 2}
- {name: failures, policy: fixedwindow 1/d, by: ip, count: 401}
- {name: tokens, policy: fixedwindow 1/d, by: ip, cost: {estimate: 1, actual: header:used}}
- {name: tried, policy: fixedwindow 1/d, by: ip, shadow: true}
- {name: elsewhere, policy: fixedwindow 1/d, by: ip, paths: [/nowhere]}
`
	require.Equal(t, []string{"1m0s 10 wide", "1h0m0s 40 cheap", "24h0m0s 500 cheap"}, strictestOf(planOf(t, clitest.OneRule, after, clitest.FourLines)))
	for _, rest := range []string{"shadow: true", "count: 401", "cost: {estimate: 1, actual: header:used}"} {
		nothing := oneRuleOf("policy: gcra 1/m, by: ip, " + rest)
		require.Empty(t, planOf(t, clitest.OneRule, nothing, clitest.FourLines).Strictest)
		require.Regexp(t, `\nno rule of \S+new.yaml bounds the requests of the log; rules in shadow mode, with count or with an actual cost do not\n`, textOf(t, clitest.OneRule, nothing, clitest.FourLines))
		require.Contains(t, textOf(t, clitest.OneRule, nothing, clitest.FourLines, "--markdown"), "No rule of NEW bounds the requests of the log. Rules in shadow mode, with count or with an actual cost do not.")
	}
}

// The bounds of a rule are in what it charges for: requests, charged requests or units.
func TestBoundsNameWhatTheyCount(t *testing.T) {
	requests := oneRuleOf("policy: fixedwindow 5/m, by: ip")
	charged := oneRuleOf("policy: fixedwindow 3/m, by: ip, count: 401")
	units := oneRuleOf("policy: gcra 10000/m, by: ip, cost: {estimate: 500, actual: header:used}")
	one := oneRuleOf("policy: movingwindow 1/m trailing=whole, by: ip")
	for _, c := range []struct{ before, after, want string }{
		{requests, requests, "10 requests in any minute"},
		{requests, one, "10 -> 1 request in any minute"},
		{charged, charged, "6 charged requests in any minute"},
		{requests, charged, "10 requests -> 6 charged requests in any minute"},
		{units, units, "20000 units in any minute"},
		{charged, units, "6 charged requests -> 20000 units in any minute"},
		{units, "rules: [{name: other, policy: gcra 1/m}]", "20000 units in any minute"},
	} {
		require.Contains(t, textOf(t, c.before, c.after, clitest.FourLines), "  one key: at most "+c.want+"\n")
	}
	require.Contains(t, textOf(t, requests, charged, clitest.FourLines, "--markdown"), " | 10 requests -> 6 charged requests in any minute |\n")
	for unit, file := range map[string]string{"request": requests, "charged request": charged, "unit": units} {
		require.Equal(t, unit, planOf(t, file, file, clitest.FourLines).Rules[0].New.BoundUnit)
	}
}

// TestBoundsThatCannotBeCounted: Policy.Bound has no such number.
func TestBoundsThatCannotBeCounted(t *testing.T) {
	huge := oneRuleOf("policy: fixedwindow 1099511627776/us, by: ip, cost: 2")
	require.Contains(t, textOf(t, clitest.OneRule, huge, clitest.FourLines), "too many requests to count under client")
	require.EqualValues(t, int64(9223372036854775807), planOf(t, clitest.OneRule, huge, clitest.FourLines).Strictest[2].Bound)
}

func TestPlanComparesCostsThatTheResponseDecides(t *testing.T) {
	const log = `192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "POST /login HTTP/1.1" 200 1
192.0.2.1 - - [01/Jan/2000:00:00:01 +0000] "POST /login HTTP/1.1" 401 1
192.0.2.1 - - [01/Jan/2000:00:00:02 +0000] "POST /login HTTP/1.1" 200 1
`
	every, failures := oneRuleOf("policy: fixedwindow 1/h, by: ip"), oneRuleOf("policy: fixedwindow 1/h, by: ip, count: 401")
	r := planOf(t, every, failures, log)
	require.Equal(t, [...]int64{1, 2, 2, 1}, [...]int64{r.Old.Allowed, r.Old.Denied, r.New.Allowed, r.New.Denied})
	require.Equal(t, []difference{{"count", "all", "401"}}, r.Rules[0].Differences)
	require.EqualValues(t, 1, planOf(t, failures, every, log).NewlyDenied)
	require.NotContains(t, textOf(t, every, failures, log), "estimate")

	estimated := oneRuleOf("policy: fixedwindow 9/h, cost: {estimate: 9, actual: header:used}")
	require.Equal(t, []difference{{"actual cost", "none", "Used"}}, planOf(t, oneRuleOf("policy: fixedwindow 9/h, cost: 9"), estimated, log).Rules[0].Differences)
	const line = "rule client is replayed with its estimate of 9 units: access logs do not have the header Used of the response\n"
	require.Equal(t, 1, strings.Count(textOf(t, estimated, estimated, log), line))
	require.Contains(t, textOf(t, every, estimated, log), "new.yaml: "+line)
}

func TestClientsOfAPlan(t *testing.T) {
	strict := oneRuleOf("policy: fixedwindow 1/d")
	wide := oneRuleOf("policy: fixedwindow 9/d")
	for by, want := range map[string][]backtest.ClientChange{
		"ip":         {{Client: "192.0.2.1", Requests: 3, NewlyDenied: 2}, {Client: "192.0.2.2", Requests: 1, NewlyDenied: 1}},
		"user":       {{Client: "ann", Requests: 3, NewlyDenied: 2}, {Client: "ip:192.0.2.2", Requests: 1, NewlyDenied: 1}},
		"ip+path":    {{Client: "192.0.2.1 /a", Requests: 2, NewlyDenied: 1}, {Client: "192.0.2.1 /b", Requests: 1, NewlyDenied: 1}, {Client: "192.0.2.2 /a", Requests: 1, NewlyDenied: 1}},
		"everything": {{Client: "everything", Requests: 4, NewlyDenied: 3}},
	} {
		r := planOf(t, wide, strict, clitest.FourLines, "--by", by)
		require.Equal(t, want, r.MostNewlyDenied, by)
		require.Equal(t, by, r.By)
	}
	log := strings.NewReplacer("192.0.2.1", "2001:db8::1, 10.0.0.1", "192.0.2.2", "2001:db8::ffff, 10.0.0.1").Replace(clitest.FourLines)
	r := planOf(t, wide, "trusted: 10.0.0.1\n"+strict, log)
	require.Equal(t, []backtest.ClientChange{{Client: "2001:db8::/64", Requests: 4, NewlyDenied: 3}}, r.MostNewlyDenied)
	require.Empty(t, planOf(t, wide, strict, clitest.FourLines, "--top", "0").MostNewlyDenied)
}

const tenantLines = `{"time": 946684800, "ip": "192.0.2.1", "tenant": "x"}
{"time": 946684801, "ip": "192.0.2.1", "tenant": "x"}
{"time": 946684802, "ip": "192.0.2.1", "tenant": "y"}
{"time": 946684803, "ip": "192.0.2.2"}
`

func TestPlanReadsTheHeaderOfEitherFile(t *testing.T) {
	by := func(field string) string { return oneRuleOf("policy: fixedwindow 1/h, by: '" + field + "'") }
	key := []string{"--key-field", "tenant"}
	r := planOf(t, by("ip"), by("header:X-Tenant"), tenantLines, key...)
	require.Equal(t, [...]int64{2, 1, 0, 1}, [...]int64{r.Old.Denied, r.New.Denied, r.NewlyDenied, r.NewlyAllowed})
	require.Equal(t, "ip", r.By)
	r = planOf(t, by("cookie:t"), by("ip"), tenantLines, key...)
	require.Equal(t, [...]int64{1, 2, 1, 0}, [...]int64{r.Old.Denied, r.New.Denied, r.NewlyDenied, r.NewlyAllowed})
	require.Equal(t, map[string]int64{"key": 1}, r.Missing)
	r = planOf(t, by("ip"), by("path"), tenantLines, append(key, "--by", "key")...)
	require.Equal(t, []backtest.ClientChange{{Client: "ip:192.0.2.2", Requests: 1, NewlyDenied: 1}}, r.MostNewlyDenied)
	out := textOf(t, by("cookie:t"), by("ip"), tenantLines, append(key, "--by", "key")...)
	require.Regexp(t, `(?m)^1 of 4 requests without a member "tenant"; in \S+old.yaml, under rule client they are limited by ip; for --by, their key has ip:ADDRESS instead`, out)
}

func TestThresholdsDecideTheExitStatus(t *testing.T) {
	wide, strict := clitest.Write(t, "wide.yaml", oneRuleOf("policy: fixedwindow 9/h, by: ip")), clitest.Write(t, "strict.yaml", oneRuleOf("policy: fixedwindow 1/h, by: ip"))
	for _, c := range []struct {
		before, after string
		flags         string
		exitCode      int
		errs          string
	}{
		{wide, strict, "", 0, ""},
		{wide, strict, "--max-newly-denied 2", 0, ""},
		{wide, strict, "--max-newly-denied 1", 1, "sluice: beyond --max-newly-denied 1: 2 requests are newly denied, and at most 1 may be\n"},
		{wide, strict, "--max-newly-denied 50%", 0, ""},
		{wide, strict, "--max-newly-denied 49.999%", 1, "sluice: beyond --max-newly-denied 49.999%: 2 requests are newly denied, and at most 1 may be\n"},
		{wide, strict, "--max-newly-denied 0", 1, "sluice: beyond --max-newly-denied 0: 2 requests are newly denied, and at most 0 may be\n"},
		{wide, strict, "--max-newly-allowed 0", 0, ""},
		{wide, strict, "--max-clients 1", 0, ""},
		{wide, strict, "--max-clients 0", 1, "sluice: beyond --max-clients 0: 1 client is newly denied, and at most 0 may be\n"},
		{strict, wide, "--max-newly-denied 0 --max-clients 0", 0, ""},
		{strict, wide, "--max-newly-allowed 2", 0, ""},
		{strict, wide, "--max-newly-allowed 0%", 1, "sluice: beyond --max-newly-allowed 0%: 2 requests are newly allowed, and at most 0 may be\n"},
		{wide, strict, "--max-newly-denied 0 --max-newly-allowed 0 --max-clients 0", 1, "sluice: beyond --max-newly-denied 0: 2 requests are newly denied, and at most 0 may be\n" +
			"sluice: beyond --max-clients 0: 1 client is newly denied, and at most 0 may be\n"},
	} {
		for _, form := range []string{"--top=10", "--markdown", "--json"} {
			exitCode, out, errs := clitest.Execute(t, clitest.FourLines, slices.Concat([]string{"plan", c.before, c.after, "-", form}, strings.Fields(c.flags))...)
			require.Equal(t, c.exitCode, exitCode, c.flags)
			require.Equal(t, c.errs, errs)
			if form == "--json" {
				var r planReport
				require.NoError(t, json.Unmarshal([]byte(out), &r))
				require.Equal(t, c.exitCode == 1, slices.ContainsFunc(r.Thresholds, func(t threshold) bool { return t.Exceeded }))
				continue
			}
			for line := range strings.Lines(errs) {
				require.Contains(t, out, strings.TrimPrefix(line, "sluice: "), "the report names the threshold too")
			}
			if form == "--markdown" {
				require.Equal(t, c.exitCode == 1, strings.HasPrefix(out, "**A threshold is exceeded.** Of 4 requests, "))
				require.Equal(t, c.exitCode == 0 && c.flags != "", strings.HasPrefix(out, "**All thresholds are kept.** Of 4 requests, "))
			}
		}
	}
}

func TestMembersOfTheJSONAreThoseOfTheHelp(t *testing.T) {
	cut := clitest.Gzipped(clitest.FourLines)
	clitest.RequireDocumented(t, help, string(clitest.Read(t, filepath.Join("testdata", "plan.json"))),
		clitest.Ok(t, "", "plan", "--json", planOld, planNew, clitest.Write(t, "cut.gz", cut[:len(cut)-4])))
	rules := clitest.Write(t, "same.yaml", clitest.OneRule)
	require.NotContains(t, clitest.Ok(t, clitest.FourLines, "plan", "--json", rules, clitest.Write(t, "new.yaml", clitest.OneRule), "-"), "null", "of a list")
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
