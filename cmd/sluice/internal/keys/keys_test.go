// These tests promise about each store:
//   - sluice keys lists all keys of a rule with what they have used, in one run or in pages;
//   - sluice reset resets the keys that are named, or all keys of the rule;
//   - both commands change nothing else.
package keys

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/stores"
	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/redis"
)

var shared servers.Shared

// addresses returns an address of each kind of store.
func addresses(t *testing.T) []string {
	return []string{"sqlite:" + filepath.Join(t.TempDir(), "limits.db"), "redis://" + shared.Redis(t).Addr(), shared.Postgres(t).DSN()}
}

// namespace returns the namespace of the rules of a test.
func namespace(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// prepared opens the store of an address as sluice serve does.
func prepared(t *testing.T, address string) storage.Store {
	s, err := stores.Open(address, stores.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Prepare(t.Context()))
	return s.Store
}

type call struct{ tenant, user string }

// use makes n calls of each caller under the rules login and other.
func use(t *testing.T, store storage.Store, grouped bool, n int64, callers ...call) {
	o := sluice.Options[call]{Namespace: namespace(t)}
	if grouped {
		o.Group = func(c call) string { return c.tenant }
	}
	user := func(c call) string { return c.user }
	l, err := o.New(store, sluice.By("login", user, "fixedwindow 5/h"), sluice.By("login2", user, "fixedwindow 5/h"))
	require.NoError(t, err)
	t.Cleanup(func() { // the servers are shared
		for _, rule := range l.Rules() {
			_, _ = l.Clear(context.Background(), rule)
		}
	})
	for _, c := range callers {
		d, err := l.AllowN(t.Context(), c, n)
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
}

// flags are those of the rule login.
func flags(t *testing.T, command, address string, more ...string) []string {
	return append([]string{command, "--store", address, "--namespace", namespace(t), "--rule", "login", "-p", "fixedwindow 5/h"}, more...)
}

// pagesOf reads the objects that --json prints.
func pagesOf(t *testing.T, out string) (pages []page) {
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p page
		err := d.Decode(&p)
		if err == io.EOF {
			return pages
		}
		require.NoError(t, err)
		pages = append(pages, p)
	}
}

// usedOf returns what the keys of a listing have used.
func usedOf(t *testing.T, args ...string) map[string]int64 {
	used := map[string]int64{}
	for _, p := range pagesOf(t, clitest.Ok(t, "", slices.Insert(slices.Clone(args), 1, "--json")...)) {
		for _, k := range p.Keys {
			require.Empty(t, k.Error)
			used[k.Key] = k.Used
		}
	}
	return used
}

func TestKeysAreListedAndReset(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, address := range addresses(t) {
		t.Run(address[:6], func(t *testing.T) {
			store := prepared(t, address)
			require.Contains(t, clitest.Ok(t, "", flags(t, "keys", address)...), "rule login: no key has a record on ")
			for _, user := range []string{"alice", "50%", "{a}b", "", `""`, "a\nb", "a\u202eb", "a%#b", "\xff", " a ", "-5", long, strings.Repeat("é\u00a0", 400)} {
				use(t, store, false, 2, call{user: user})
			}
			use(t, store, true, 3, call{"tenant 7", "alice"}, call{long, "x\u200by"})
			prefix := driver.Rule(namespace(t), "login", "fixedwindow")
			shortened := func(group, key string) string {
				text := driver.RuleKey{Group: group, Rule: prefix, Key: key}.String()
				return strings.NewReplacer(prefix, "", "\u00a0", "%C2%A0", "\u200b", "%E2%80%8B").Replace(text)
			}
			want := map[string]int64{"alice": 2, "50%25": 2, "%7Ba%7Db": 2, `""`: 2, "%22%22": 2, "a%0Ab": 2, "a%E2%80%AEb": 2, "a%25#b": 2, "%FF": 2, "%20a%20": 2, "-5": 2,
				shortened("", long): 2, shortened("", strings.Repeat("é\u00a0", 400)): 2, "{tenant 7}alice": 3, shortened(long, "x\u200by"): 3}
			require.Equal(t, want, usedOf(t, flags(t, "keys", address)...))
			require.Regexp(t, `(?m)^\{tenant 7\}alice +3 +5 +- +\S+$`, clitest.Ok(t, "", flags(t, "keys", address)...))
			for key, used := range want {
				require.Equal(t, map[string]int64{key: used}, usedOf(t, flags(t, "keys", address, "--", key, key)...))
			}
			exitCode, out, errs := clitest.Execute(t, "", flags(t, "keys", address, "bob", "alice")...)
			require.Equal(t, 1, exitCode)
			require.Regexp(t, `\n\nkey .*\nalice +2 +5 .*\n$`, out)
			require.Contains(t, errs, "sluice: rule login has no record of bob on ")

			kept := []string{`""`, "%FF", "{tenant 7}alice"}
			for key := range want {
				if slices.Contains(kept, key) {
					continue
				}
				require.Equal(t, "rule login: "+key+" is reset\n", clitest.Ok(t, "", flags(t, "reset", address, "--", key, key)...), "once")
			}
			left := usedOf(t, flags(t, "keys", address)...)
			require.Equal(t, map[string]int64{`""`: 2, "%FF": 2, "{tenant 7}alice": 3}, left)
			exitCode, out, errs = clitest.Execute(t, "", flags(t, "reset", address, "alice", "%ff", "bob")...)
			require.Equal(t, 1, exitCode)
			require.Equal(t, "rule login: %FF is reset\n", out)
			require.Contains(t, errs, "sluice: rule login has no record of alice, bob on ")

			require.Equal(t, "rule login: 2 keys reset\n", clitest.Ok(t, "", flags(t, "reset", address, "--all")...))
			require.Contains(t, clitest.Ok(t, "", flags(t, "reset", address, "--all")...), "rule login: no key has a record on ")
			require.Empty(t, usedOf(t, flags(t, "keys", address)...))
			other := flags(t, "keys", address)
			other[slices.Index(other, "login")] = "login2"
			require.Len(t, usedOf(t, other...), len(want))
		})
	}
}

type writer func(text string)

func (w writer) Write(b []byte) (int, error) {
	w(string(b))
	return 0, io.ErrClosedPipe
}

// TestResetPrintsAfterTheLastReset: if the reader of a pipe has ended, printing ends the process.
func TestResetPrintsAfterTheLastReset(t *testing.T) {
	address := addresses(t)[0]
	use(t, prepared(t, address), false, 1, call{user: "a"}, call{user: "b"}, call{user: "c"})
	printed := ""
	out := writer(func(text string) {
		printed += text
		require.Empty(t, usedOf(t, flags(t, "keys", address)...))
	})
	command := ResetCommand(cli.Streams{Out: out})
	command.SetArgs(flags(t, "reset", address, "a", "b", "c")[1:])
	require.NoError(t, command.ExecuteContext(t.Context()))
	require.Equal(t, "rule login: a is reset\nrule login: b is reset\nrule login: c is reset\n", printed)
}

func TestPagesHaveAllKeys(t *testing.T) {
	const users = 250
	for _, address := range addresses(t) {
		t.Run(address[:6], func(t *testing.T) {
			store := prepared(t, address)
			for i := range users {
				use(t, store, i%2 == 0, 1, call{"t", fmt.Sprint(i)})
			}
			all := usedOf(t, flags(t, "keys", address, "--max", "0")...)
			require.Len(t, all, users)
			listed, after := map[string]int64{}, ""
			for {
				args := flags(t, "keys", address, "--max", "40", "--json")
				if after != "" {
					args = append(args, "--after", after)
				}
				printed := 0
				for _, p := range pagesOf(t, clitest.Ok(t, "", args...)) {
					printed += len(p.Keys)
					for _, k := range p.Keys {
						listed[k.Key] = k.Used
					}
					after = p.Next
				}
				if after == "" {
					break
				}
				require.GreaterOrEqual(t, printed, 40)
			}
			require.Equal(t, all, listed)
			continued := regexp.MustCompile(`Continue with --after (\S+)\n$`).FindStringSubmatch(clitest.Ok(t, "", flags(t, "keys", address, "--max", "1")...))
			require.NotEmpty(t, continued)
			clitest.Ok(t, "", flags(t, "keys", address, "--after", continued[1])...)
		})
	}
}

func TestRuleIsThatOfAFile(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	t.Setenv(stores.Variable, address)
	l, err := sluice.For(prepared(t, address), sluice.By("client", func(k string) string { return k }, "gcra 1/m"))
	require.NoError(t, err)
	_, err = l.Allow(t.Context(), "192.0.2.1")
	require.NoError(t, err)
	config := clitest.Write(t, "limits.yaml", clitest.OneRule)
	out := clitest.Ok(t, "", "keys", "--config", config)
	require.Regexp(t, `^rule client: gcra 1/m, on sqlite:.*\n\nkey +used +limit +retry after +reset after\n192\.0\.2\.1 +1 +1 +59\.\d+s +59\.\d+s\n$`, out)
	clitest.RequireDocumented(t, keysHelp, clitest.Ok(t, "", "keys", "--config", config, "--json", "--max", "1"), `"error":`)

	one, err := sluice.New(prepared(t, address), "gcra 100/min")
	require.NoError(t, err)
	_, err = one.Allow(t.Context(), "alice")
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"alice": 1}, usedOf(t, "keys", "-p", "gcra 100/min"))
}

// The files beside a database can have another owner than it, and then its programs cannot open it.
func TestNoFilesAreLeftBesideADatabase(t *testing.T) {
	dir := t.TempDir()
	address := "sqlite:" + filepath.Join(dir, "limits.db")
	serve, err := stores.Open(address, stores.Options{})
	require.NoError(t, err)
	require.NoError(t, serve.Prepare(t.Context()))
	use(t, serve.Store, false, 1, call{user: "alice"})
	serve.Close()
	require.Eventually(t, func() bool { // the store keeps its last connection for a moment
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 1
	}, time.Minute, time.Millisecond)
	for _, args := range [][]string{flags(t, "keys", address), flags(t, "reset", address, "alice"), flags(t, "reset", address, "--all")} {
		clitest.Ok(t, "", args...)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
	}
}

// TestFileOfAnotherProgramKeepsItsSettings: sluice serve sets the journal mode of its file.
func TestFileOfAnotherProgramKeepsItsSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite3", file)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE orders (id INTEGER)")
	require.NoError(t, err)
	exitCode, _, errs := clitest.Execute(t, "", flags(t, "keys", "sqlite:"+file)...)
	require.Equal(t, 1, exitCode)
	require.Contains(t, errs, "no such table: sluice_states")
	var mode string
	var tables int
	require.NoError(t, db.QueryRow("PRAGMA journal_mode").Scan(&mode))
	require.NoError(t, db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables))
	require.Equal(t, "delete", mode)
	require.Equal(t, 1, tables)
}

func TestInvalidCommandLines(t *testing.T) {
	clitest.Transcript(t, "failures.txt", map[string]string{"limits.yaml": "rules: [{name: a, policy: gcra 1/m}, {name: b, policy: gcra 1/m}]"})
}

func TestCursorOfAnotherListingIsAnError(t *testing.T) {
	all := addresses(t)[:2]
	for _, address := range all {
		use(t, prepared(t, address), false, 1, call{user: "a"}, call{user: "b"})
	}
	next := func(args ...string) string {
		pages := pagesOf(t, clitest.Ok(t, "", flags(t, "keys", all[0], append(args, "--max", "1", "--json")...)...))
		return pages[len(pages)-1].Next
	}
	after := next()
	other := flags(t, "keys", all[0], "--after", after)
	other[slices.Index(other, "login")] = "login2"
	for _, args := range [][]string{flags(t, "keys", all[0], "--after", "x@"), flags(t, "keys", all[1], "--after", after), other} {
		clitest.RequireFailure(t, args, cli.ExitUsage, "--after ", "want the cursor that sluice keys has printed for the same rule and store")
	}
	for ; after != ""; after = next("--after", after) { // the last page can be empty
		require.Regexp(t, `(?m)^b +1 +5 |^no more keys$`, clitest.Ok(t, "", flags(t, "keys", all[0], "--max", "1", "--after", after)...))
	}
}

func TestValueThatIsNoRecordIsListed(t *testing.T) {
	server := shared.Redis(t)
	address := "redis://" + server.Addr()
	use(t, prepared(t, address), false, 1, call{user: "alice"})
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer client.Close()
	name := redis.DefaultPrefix + driver.Rule(namespace(t), "login", "fixedwindow") + "list"
	require.NoError(t, client.LPush(t.Context(), name, "x").Err())
	defer client.Del(context.Background(), name)
	out := clitest.Ok(t, "", flags(t, "keys", address)...)
	require.Regexp(t, `(?m)^alice +1 +5 `, out)
	require.Regexp(t, `(?m)^list +unreadable: redis: WRONGTYPE`, out)
	exitCode, out, errs := clitest.Execute(t, "", flags(t, "reset", address, "--all")...)
	require.Equal(t, 1, exitCode)
	require.Contains(t, out, "1 key reset")
	require.Contains(t, errs, "key list: redis: WRONGTYPE")
}

func TestInvalidKeys(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	use(t, prepared(t, address), false, 1, call{user: "alice"})
	for key, problem := range map[string]string{
		"{}alice": "the key {}alice begins with a brace, but not with a group", "{alice": "write a brace of the key as %7B",
		"50%": "the key 50% has a % that is not part of %XX", "{a%}alice": "write % as %25",
	} {
		clitest.RequireFailure(t, flags(t, "reset", address, "alice", key), cli.ExitUsage, problem)
	}
	require.Len(t, usedOf(t, flags(t, "keys", address)...), 1, "nothing is reset")
}

func TestNodeOfAClusterIsRefused(t *testing.T) {
	exitCode, _, errs := clitest.Execute(t, "", flags(t, "reset", "redis://"+servers.Cluster(t).Addrs()[0], "--all")...)
	require.Equal(t, 1, exitCode)
	require.Contains(t, errs, "the server is a node of a Redis Cluster")
}

func TestTableOfAProgram(t *testing.T) {
	for _, address := range addresses(t) {
		own, err := stores.Open(address, stores.Options{Table: "own"})
		require.NoError(t, err)
		require.NoError(t, own.Prepare(t.Context()))
		t.Cleanup(own.Close)
		use(t, own.Store, false, 1, call{user: "alice"})
		require.Equal(t, map[string]int64{"alice": 1}, usedOf(t, flags(t, "keys", address, "--table", "own")...))
	}
}

func TestRowsShowTheCostAndUnreadableRecords(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	store := prepared(t, address)
	use(t, store, false, 4, call{user: "alice"})
	text := driver.RuleKey{Rule: driver.Rule(namespace(t), "login", "fixedwindow"), Key: "bob"}.String()
	_, _, err := store.CompareAndSwap(t.Context(), storage.Swap{Key: text, New: storage.Record{Version: 1, State: []byte("x")}})
	require.NoError(t, err)
	for cost, wait := range map[string]string{"1": "-", "2": `[0-9][0-9hms]+`} {
		config := clitest.Write(t, "limits.yaml", "rules: [{name: login, policy: fixedwindow 5/h, cost: "+cost+"}]")
		out := clitest.Ok(t, "", "keys", "--store", address, "--namespace", namespace(t), "--config", config)
		require.Regexp(t, `(?m)^alice +4 +5 +`+wait+` +\S+\nbob +unreadable: `, out)
	}
	require.Contains(t, clitest.Ok(t, "", flags(t, "keys", address, "--json")...), `{
      "key": "bob",
      "error": "`)
	require.Contains(t, clitest.Ok(t, "", flags(t, "reset", address, "bob")...), "is reset")
}

// A part with a small capacity may be full again while another part is used up.
func TestUsedAndLimitAreThoseOfOnePart(t *testing.T) {
	tracetest.Answers(t, "testdata/parts.txt", func(question string) string {
		calls, spec, _ := strings.Cut(question, " calls of ")
		n, err := strconv.Atoi(calls)
		require.NoError(t, err)
		l, now := list{rule: rule{policy: sluice.MustPolicy(spec), cost: 1}}, time.Unix(1_700_000_000, 0)
		var state []byte
		for range n {
			state, _, err = l.policy.Step(nil, state, now, 1)
			require.NoError(t, err)
		}
		row := l.row("", state, now.Add(time.Minute))
		return fmt.Sprintf("%d of %d, retry after %s", row.Used, row.Limit, row.RetryAfter)
	})
}

// After a failover, the records may be ahead of the clock of the store. A limiter moves them to now.
func TestNumbersAreThoseOfALimiterIfARecordIsAhead(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "limits.db")
	store := prepared(t, address)
	for _, spec := range []string{"gcra 5/h", "gcra 10/h", "all(gcra 1000/s burst=10; fixedwindow 5/h)", "penalty(gcra 5/h; for=1h)"} {
		limiter := func(clock func() time.Time) *sluice.Limiter[string] {
			l, err := sluice.Options[string]{Clock: clock}.New(store, sluice.By("login", func(k string) string { return k }, spec))
			require.NoError(t, err)
			return l
		}
		for range 6 { // the last is denied, except under 10/h
			_, err := limiter(func() time.Time { return time.Now().Add(time.Hour) }).Allow(t.Context(), "alice")
			require.NoError(t, err)
		}
		d, err := limiter(nil).Peek(t.Context(), "alice")
		require.NoError(t, err)
		want := d.Results[0]
		out := clitest.Ok(t, "", "keys", "--store", address, "--rule", "login", "-p", spec, "--json")
		k := pagesOf(t, out)[0].Keys[0]
		require.Equal(t, want.Limit-want.Remaining, k.Used, spec)
		for text, want := range map[string]time.Duration{k.RetryAfter: want.RetryAfter, k.ResetAfter: want.ResetAfter} {
			got, err := time.ParseDuration(text)
			require.NoError(t, err)
			require.InDelta(t, want, got, float64(time.Minute), spec)
		}
	}
}

func TestMain(m *testing.M) {
	clitest.Commands = []cli.NewCommand{Command, ResetCommand}
	code := m.Run()
	shared.Close()
	os.Exit(code)
}
