package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/sample"
)

// slowRule is a rule twice: as the file has it, and as functions and an oracle that
// share no code with what they judge.
type slowRule struct {
	name   string
	text   string
	key    func(r *slowRequest) string
	meant  func(r *slowRequest) bool
	oracle algotest.Oracle
	period time.Duration
	cost   int64
	shadow bool
}

type slowRequest struct {
	at                     time.Time
	ip, user, method, path string
}

var slowRules = []slowRule{
	{
		name: "client", text: "policy: gcra 10/m burst=5, by: ip",
		key: ipOf, meant: every, cost: 1,
		oracle: algotest.Bucket(algo.Per(10, time.Minute), 5), period: time.Minute,
	},
	{
		name: "login", text: "policy: fixedwindow 30/h, by: [ip, path], methods: [POST], paths: [/login, /account/*], cost: 3",
		key: func(r *slowRequest) string { return fmt.Sprintf("%q %q", ipOf(r), cleaned(r)) },
		meant: func(r *slowRequest) bool {
			p := cleaned(r)
			return r.method == "POST" && (p == "/login" || p == "/account" || strings.HasPrefix(p, "/account/"))
		},
		oracle: algotest.WindowFromFirst(algo.Per(30, time.Hour)), period: time.Hour, cost: 3,
	},
	{
		name: "page", text: "policy: tokenbucket 4/m, by: path, shadow: true",
		key: cleaned, meant: every, cost: 1, shadow: true,
		oracle: algotest.Bucket(algo.Per(4, time.Minute), 4), period: time.Minute,
	},
	{
		name: "all", text: "policy: movingwindow 240/m slots=6, cost: 2",
		key: func(*slowRequest) string { return "" }, meant: every, cost: 2,
		oracle: algotest.MovingWindow(algo.Per(240, time.Minute), 6, false), period: time.Minute,
	},
	{
		name: "user", text: "policy: tokenbucket 5/20s refill=interval, by: user, methods: [GET]",
		key:   userOrIP,
		meant: func(r *slowRequest) bool { return r.method == "GET" || r.method == "HEAD" }, cost: 1,
		oracle: algotest.IntervalBucket(algo.Per(5, 20*time.Second), 5), period: 20 * time.Second,
	},
}

func userOrIP(r *slowRequest) string {
	if r.user == "" {
		return "ip:" + ipOf(r)
	}
	return r.user
}

func every(*slowRequest) bool { return true }

func cleaned(r *slowRequest) string { return path.Clean("/" + r.path) }

func ipOf(r *slowRequest) string {
	a := netip.MustParseAddr(r.ip).Unmap()
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

var slowLine = regexp.MustCompile(`^(\S+) \S+ (\S+) \[([^\]]+)\] "(\S+) ([^ ?"]+)[^"]*" \d{3} `)

func slowRequests(t *testing.T, log string) (all []slowRequest) {
	for text := range strings.Lines(log) {
		m := slowLine.FindStringSubmatch(text)
		require.NotNil(t, m, text)
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[3])
		require.NoError(t, err)
		all = append(all, slowRequest{at, m[1], strings.TrimPrefix(m[2], "-"), m[4], m[5]})
	}
	slices.SortStableFunc(all, func(a, b slowRequest) int { return a.at.Compare(b.at) })
	return all
}

// slowCount is what one rule, or all of them, came to.
type slowCount struct {
	Requests, Denied, Alone, Keys, Worst int64
	ByKey                                map[string]int64
}

// slowTogether replays by the definition: a request is let through if every rule
// that is enforced has room for it, and only then takes its cost from each that
// has room.
func slowTogether(requests []slowRequest, rules []slowRule) (each []slowCount, denied int64) {
	logs := make([]map[string]algotest.Log, len(rules))
	each = make([]slowCount, len(rules))
	for i := range rules {
		logs[i], each[i].ByKey = make(map[string]algotest.Log), make(map[string]int64)
	}
	for _, req := range requests {
		room, deniers := make([]bool, len(rules)), []int{}
		for i, rule := range rules {
			if !rule.meant(&req) {
				continue
			}
			each[i].Requests++
			key := rule.key(&req)
			log := logs[i][key]
			logs[i][key] = log
			if room[i] = rule.oracle(log, req.at) >= rule.cost; room[i] {
				continue
			}
			each[i].Denied++
			each[i].ByKey[key]++
			if !rule.shadow {
				deniers = append(deniers, i)
			}
		}
		if len(deniers) == 1 {
			each[deniers[0]].Alone++
		}
		if len(deniers) > 0 {
			denied++
			continue
		}
		for i, rule := range rules {
			if room[i] {
				log := logs[i][rule.key(&req)]
				log.Add(req.at, rule.cost)
				logs[i][rule.key(&req)] = log
			}
		}
	}
	for i, rule := range rules {
		each[i].Keys = int64(len(logs[i]))
		for _, log := range logs[i] {
			each[i].Worst = max(each[i].Worst, log.Worst(rule.period))
		}
	}
	return each, denied
}

func judgeRules(t *testing.T, log string, rules []slowRule) {
	requests := slowRequests(t, log)
	want, denied := slowTogether(requests, rules)
	file := "rules:\n"
	for _, r := range rules {
		file += fmt.Sprintf("- {name: %s, %s}\n", r.name, r.text)
	}
	code, out, errs := sluice(t, log, "replay", "--config", write(t, "limits.yaml", file), "--json", "--top", "100000", "-")
	require.Zero(t, code, errs)
	var got jsonRulesReport
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.EqualValues(t, len(requests), got.Together.Requests)
	require.Equal(t, denied, got.Together.Denied)
	require.Equal(t, got.Together.Requests, got.Together.Allowed+denied)
	require.Positive(t, denied)
	for i, r := range got.Rules {
		found := slowCount{r.Requests, r.Denied, r.Alone, r.Keys, r.Worst.Admitted, make(map[string]int64)}
		for _, d := range r.TopDenied {
			found.ByKey[d.Key] = d.Denied
		}
		require.Equal(t, want[i], found, r.Rule)
		require.Equal(t, r.Requests, r.Allowed+r.Denied)
		require.LessOrEqual(t, r.Worst.Admitted, r.Worst.Bound)
	}
}

// TestRulesAgreeWithTheSlowReplay is over the first quarter of the sample, and over a
// log made up of what it does not have. Limiters of up to three rules decide in
// another way than those of more.
func TestRulesAgreeWithTheSlowReplay(t *testing.T) {
	z, err := gzip.NewReader(sample.Open())
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	part := text[:len(text)/4]
	logs := map[string]string{"sample": string(part[:strings.LastIndexByte(string(part), '\n')+1]), "made up": madeUp()}
	for name, log := range logs {
		for _, n := range []int{1, 3, len(slowRules)} {
			t.Run(fmt.Sprintf("%s, %d rules", name, n), func(t *testing.T) {
				t.Parallel()
				judgeRules(t, log, slowRules[:n])
			})
		}
	}
}

func madeUp() string {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	var log strings.Builder
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 1200 {
		if random.IntN(2) == 0 {
			at = at.Add(time.Duration(random.IntN(5)) * time.Second)
		}
		fmt.Fprintf(&log, "%s - %s [%s] \"%s %s HTTP/1.1\" 200 1\n",
			pick("192.0.2.1", "192.0.2.2", "192.0.2.3", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
			pick("-", "ann", "bob"), at.Format("02/Jan/2006:15:04:05 -0700"), pick("GET", "HEAD", "POST"),
			pick("/", "/login", "//login", "/x/../login/", "/login?a=b", "/account", "/account/7", "/accounts", "/Login"))
	}
	return log.String()
}
