package compare_test

// These tests promise:
//
//   - All parts of a response follow from the same calls. Each export can be used as it is. The error of
//     each invalid request says what to do. Lists are never null, because the page reads their lengths
//     (service_test.go).
//   - Only the page itself, on this machine, gets responses (handler_test.go).

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/compare"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
	"github.com/sluice-go/sluice/internal/trace"
)

func query(specs ...string) compare.Query {
	return compare.Query{Specs: specs, Stream: compare.Stream{Kind: "poisson", Requests: 500, Length: 600, Clients: 3, Seed: 1}}
}

// call calls a method with a request as JSON.
func call(s *compare.Service, method string, request any) (any, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return s.Call(context.Background(), method, bytes.NewReader(body), func(float64) {})
}

func result[R any](t *testing.T, s *compare.Service, method string, request any) R {
	t.Helper()
	got, err := call(s, method, request)
	require.NoError(t, err)
	return got.(R)
}

var all = []string{"gcra 10/m burst=3", "tokenbucket 10/m refill=interval", "fixedwindow 10/m align=clock", "movingwindow 10/m slots=4", "all(gcra 1/s; gcra 10/m)"}

func TestPartsOfAResponseAgree(t *testing.T) {
	s := compare.NewService()
	for _, reaction := range []simulate.Reaction{simulate.Ignore, simulate.Retry, simulate.Backoff, simulate.Wait} {
		q := query(all...)
		q.Reaction, q.Skews, q.OwnClocks = reaction, []float64{0, 5, -3600}, reaction == simulate.Retry
		c := result[*compare.Comparison](t, s, "compare", q)
		require.Len(t, c.Policies, len(all))
		for i, p := range c.Policies {
			var bars, calls, processes int64
			for j := range p.Bars.Allowed {
				bars += p.Bars.Allowed[j]
				calls += p.Bars.Allowed[j] + p.Bars.Denied[j]
			}
			for _, n := range p.AllowedByProcess {
				processes += n
			}
			require.Equal(t, p.Allowed, processes)
			require.Equal(t, p.Allowed+p.Denied, p.Calls)
			require.Equal(t, p.Allowed, bars)
			require.Equal(t, p.Calls, calls)
			if p.Calls <= 2000 {
				require.Len(t, p.Marks.At, int(p.Calls))
			} else {
				require.Nil(t, p.Marks)
			}
			for _, number := range []int{0, int(p.Calls) / 2, int(p.Calls) - 1} {
				d := result[*compare.Decision](t, s, "explain", compare.ExplainRequest{Query: q, Policy: i, Number: number})
				require.Equal(t, number, d.Number)
				require.EqualValues(t, p.Calls, d.Calls)
				require.Equal(t, d.Remaining, d.Available+d.Refilled-d.Paid)
				if p.Marks != nil && number < len(p.Marks.At) {
					require.Equal(t, p.Marks.Allowed[number], d.Allowed)
					require.InDelta(t, p.Marks.At[number], d.At, 1e-9)
				}
			}
		}
	}
}

// The first of these requests comes after 1s. Each other one is allowed 10s after another.
func TestTheWholeTimeEndsWithTheLastCall(t *testing.T) {
	s, q := compare.NewService(), query("gcra 6/m burst=1", "gcra 600/m")
	q.Stream, q.Reaction = compare.Stream{Kind: "steady", Requests: 10, Length: 10, Clients: 1}, simulate.Wait
	c := result[*compare.Comparison](t, s, "compare", q)
	require.Equal(t, 91.0, c.End)
	require.Equal(t, [...]float64{0, 91 + 0.91, (91 + 0.91) / 60}, [...]float64{c.From, c.To, c.Width})
	require.EqualValues(t, 10, c.Policies[0].Allowed)
	p := c.Policies[0].Marks
	require.Equal(t, 91.0, p.At[len(p.At)-1])
	q.View = compare.View{From: 1, To: 2}
	part := result[*compare.Comparison](t, s, "compare", q)
	require.Equal(t, [...]float64{91, 1, 2}, [...]float64{part.End, part.From, part.To})
	q.View, q.Reaction = compare.View{}, simulate.Ignore
	require.Equal(t, 10.0, result[*compare.Comparison](t, s, "compare", q).End)
}

func TestCallsBoughtAheadAreCountedAndExplained(t *testing.T) {
	s, q := compare.NewService(), query("gcra 600/m")
	q.Stream = compare.Stream{Kind: "steady", Requests: 3000, Length: 300, Clients: 1}
	q.Skews, q.Prepay = []float64{0, 0}, compare.Prepay{Calls: 50, For: 10}
	p := result[*compare.Comparison](t, s, "compare", q).Policies[0]
	require.Greater(t, p.Prepaid, p.Calls/2)
	require.EqualValues(t, 600+700, p.Bound, "that of 1m and of 10s more")
	decisions := make([]*compare.Decision, 20)
	for i := range decisions {
		decisions[i] = result[*compare.Decision](t, s, "explain", compare.ExplainRequest{Query: q, Number: i})
	}
	// Each process makes every second call. It buys 1, 2 and 4 calls.
	for i, bought := range []int64{0, 0, 1, 1, 0, 0, 3, 3} {
		require.Equal(t, bought, decisions[i].Bought)
		require.Equal(t, i/2 == 2, decisions[i].Prepaid)
	}
}

func TestExplainFindsTheCallNearestToATime(t *testing.T) {
	q := query(all[0])
	q.Stream = compare.Stream{Kind: "steady", Requests: 10, Length: 10, Clients: 1}
	near := 3.4
	d := result[*compare.Decision](t, compare.NewService(), "explain", compare.ExplainRequest{Query: q, Near: &near})
	require.Equal(t, &compare.Decision{
		Number: 2, Calls: 10, At: 3, AtText: "3s", Now: "3s", Client: "client-1", Attempt: 1, Process: 1,
		Allowed: true, Limit: 3, Cost: 1, Available: 1, Refilled: 0, Paid: 1, Remaining: 0,
		RetryAfter: "0s", NextRefill: "4s", ResetAfter: "16s", Skew: "0s", ExactWait: "0s",
	}, d)
}

func TestTheNumberOfRequestsIsTheOneThatTheUserSets(t *testing.T) {
	s := compare.NewService()
	for _, kind := range []string{"steady", "poisson", "bursts", "greedy", "crowd"} {
		for _, shape := range []compare.Stream{
			{Requests: 1, Length: 0.001}, {Requests: 7, Length: 600}, {Requests: 300, Length: 600}, {Requests: 301, Length: 0.001}, {Requests: 150_000, Length: 0.001},
		} {
			q := query("gcra 30/m")
			q.Stream = compare.Stream{Kind: kind, Requests: shape.Requests, Length: shape.Length, Clients: 3, Seed: uint64(shape.Requests)}
			c := result[*compare.Comparison](t, s, "compare", q)
			require.Equal(t, shape.Requests, c.Requests, "%+v", q.Stream)
			require.Equal(t, shape.Length, c.End, "%+v", q.Stream)
		}
	}
}

func TestTheViewSelectsBarsLevelAndMarks(t *testing.T) {
	view := func(from, to float64) compare.Policy {
		q := query(all[0])
		q.View = compare.View{From: from, To: to, Client: "client-2"}
		c := result[*compare.Comparison](t, compare.NewService(), "compare", q)
		require.Equal(t, "client-2", c.Client)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		require.NotContains(t, string(text), "null", "the page reads the length of each list")
		return c.Policies[0]
	}
	p := view(100, 160)
	for _, at := range append(p.Marks.At, p.Level.At...) {
		require.True(t, at >= 100 && at <= 160, "%v", at)
	}
	require.Less(t, len(p.Marks.At), int(p.Calls))
	require.Greater(t, len(p.Level.At), 100)
	// The page accepts an address with to=1e12, which is more than 64 bits of nanoseconds.
	require.Len(t, view(-1e300, 1e12).Marks.At, int(p.Calls))
	require.Empty(t, view(1000, 2000).Marks.At)
}

// TestExportedTracesPassTheirCheck: sluice replay --check runs the same.
func TestExportedTracesPassTheirCheck(t *testing.T) {
	s := compare.NewService()
	for k, kind := range []string{"steady", "poisson", "bursts", "edge", "greedy", "crowd", "worst"} {
		for i := range all {
			q := query(all...)
			q.Stream.Kind, q.Stream.Requests, q.Stream.Length, q.Stream.Target = kind, 60, 120, i
			q.Shared, q.Skews, q.OwnClocks = (i+k)%4 == 3, []float64{0, 7}, (i+k)%4 == 2
			q.Reaction = []simulate.Reaction{simulate.Ignore, simulate.Retry, simulate.Backoff, simulate.Wait}[(i+k)%4]
			text := result[*compare.Text](t, s, "trace", compare.ExplainRequest{Query: q, Policy: i})
			requirePasses(t, text)
			require.Contains(t, text.Text, "-> ok")
		}
	}
}

// TestTheWorstCaseCostsWhatRequestsCost: under each policy, also if many requests come as one call.
func TestTheWorstCaseCostsWhatRequestsCost(t *testing.T) {
	s := compare.NewService()
	for _, test := range []struct {
		specs    []string // the first is the one to break
		requests int
		allowed  []int64
		cost     []int64 // of the last call
	}{
		{[]string{"gcra 10/m cost=10", "gcra 10/m", "gcra 10/m cost=11"}, 1, []int64{1, 1, 0}, []int64{10, 1, 11}},
		{[]string{"fixedwindow 10/m cost=4", "gcra 10/m", "fixedwindow 10/m cost=5"}, 4, []int64{4, 4, 4}, []int64{4, 1, 5}},
		{[]string{"fixedwindow 40000/s cost=2", "fixedwindow 40000/s", "fixedwindow 1/s cost=9223372036854775807"}, 3, []int64{3, 3, 0}, []int64{40000, 20000, 9223372036854775807}},
	} {
		q := query(test.specs...)
		q.Stream.Kind = "worst"
		c := result[*compare.Comparison](t, s, "compare", q)
		require.Equal(t, test.requests, c.Requests, test.specs)
		for i, p := range c.Policies {
			require.Equal(t, test.allowed[i], p.Allowed, "%s of %s", p.Spec, test.specs)
			d := result[*compare.Decision](t, s, "explain", compare.ExplainRequest{Query: q, Policy: i, Number: int(p.Calls) - 1})
			require.Equal(t, test.cost[i], d.Cost)
			requirePasses(t, result[*compare.Text](t, s, "trace", compare.ExplainRequest{Query: q, Policy: i}))
		}
	}
	q := query("gcra 1/s cost=5")
	q.Stream.Kind = "worst"
	_, err := call(s, "compare", q)
	require.EqualError(t, err, "gcra 1/s cost=5 never allows a call")
}

// requirePasses requires that a trace has no differences.
func requirePasses(t *testing.T, text *compare.Text) {
	t.Helper()
	parsed, err := trace.Parse(strings.NewReader(text.Text), text.Name)
	require.NoError(t, err)
	difference, err := parsed.Diff()
	require.NoError(t, err)
	require.Zero(t, difference)
}

// read lets the service read a log.
func read(s *compare.Service, log io.Reader) (*compare.Log, error) {
	got, err := s.Call(context.Background(), "log", log, func(float64) {})
	if err != nil {
		return nil, err
	}
	return got.(*compare.Log), nil
}

// queryOf returns a query with the requests of a log.
func queryOf(log *compare.Log, spec string) compare.Query {
	q := query(spec)
	q.Stream = compare.Stream{Kind: "log", Log: log.ID}
	return q
}

func TestExportedRulesAreARuleFile(t *testing.T) {
	q := query(append(all, "gcra 10/m burst=9 cost=3", "all(gcra 10/s; gcra 100/m) cost=2")...)
	text := result[*compare.Text](t, compare.NewService(), "rules", q)
	file, err := config.Parse(text.Name, []byte(text.Text))
	require.NoError(t, err)
	require.Len(t, file.Rules, len(q.Specs))
	for i := range all {
		require.Equal(t, all[i], file.Rules[i].Policy.String())
	}
	require.EqualValues(t, 3, file.Rules[5].Cost.Units)
	require.Equal(t, "all(gcra 10/s; gcra 100/m)", file.Rules[6].Policy.String())
	require.EqualValues(t, 2, file.Rules[6].Cost.Units)
	require.Equal(t, "ip", file.Rules[0].ByString())
	require.Contains(t, text.Text, "# A rule by ip limits all addresses of an IPv6 /64 together.")

	q.Shared = true
	text = result[*compare.Text](t, compare.NewService(), "rules", q)
	file, err = config.Parse(text.Name, []byte(text.Text))
	require.NoError(t, err)
	require.Equal(t, "everything", file.Rules[0].ByString())
	require.NotContains(t, text.Text, "IPv6")
}

// A client can be logged by any name.
func TestTracesOfClientsWithOddNames(t *testing.T) {
	s := compare.NewService()
	var lines strings.Builder
	for _, name := range []string{"->", "a b", `a\x20b`, "client-2", "#1", "a|b", "|", "all", "x->y"} {
		fmt.Fprintf(&lines, "{\"time\":1e9,\"ip\":%q}\n", name)
	}
	for i := range 9 { // so that not most clients are names
		fmt.Fprintf(&lines, "{\"time\":1e9,\"ip\":\"192.0.2.%d\"}\n", i)
	}
	log, err := read(s, strings.NewReader(lines.String()))
	require.NoError(t, err)
	text := result[*compare.Text](t, s, "trace", compare.ExplainRequest{Query: queryOf(log, "gcra 1/h burst=1")})
	require.Equal(t, 18, strings.Count(text.Text, "-> ok"), "each client has a key of its own:\n%s", text.Text)
	requirePasses(t, text)
}

const smallLog = `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1
client.example.net - - [17/May/2015:10:05:04 +0000] "GET / HTTP/1.1" 200 1
not a request
192.0.2.1 - - [17/May/2015:10:05:05 +0000] "GET / HTTP/1.1" 200 1
`

func TestTheDecidingPartIsExplained(t *testing.T) {
	s, q := compare.NewService(), query("all(gcra 10/s; fixedwindow 1/h)", "penalty(all(gcra 10/s; fixedwindow 1/h); for=1m)", "penalty(gcra 1/m; for=1m)")
	q.Stream.Kind = "worst"
	for i, want := range []int{2, 2, 0} {
		require.Equal(t, want, result[*compare.Decision](t, s, "explain", compare.ExplainRequest{Query: q, Policy: i}).Part, q.Specs[i])
	}
}

func TestALogIsReadOnceAndReplayed(t *testing.T) {
	s := compare.NewService()
	for _, text := range []string{smallLog, clitest.Gzipped(smallLog)} {
		log, err := read(s, strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, compare.Log{ID: log.ID, Requests: 3, Clients: 2, Skipped: 1, NoAddress: 1}, *log)
		q := queryOf(log, "fixedwindow 1/m")
		c := result[*compare.Comparison](t, s, "compare", q)
		require.Equal(t, "2015-05-17T10:05:03Z", c.Start)
		require.Equal(t, []compare.Client{{Name: "192.0.2.1", Requests: 2}, {Name: "client.example.net", Requests: 1}}, c.Clients)
		require.EqualValues(t, 2, c.Policies[0].Allowed)
		d := result[*compare.Decision](t, s, "explain", compare.ExplainRequest{Query: q, Number: 2})
		require.Equal(t, "2015-05-17 10:05:05 UTC", d.AtText)
		require.Equal(t, "58s", d.RetryAfter)
	}
}

func TestAServiceKeepsTheLastLogs(t *testing.T) {
	s := compare.NewService()
	var logs []*compare.Log
	for i := range 4 {
		log, err := read(s, strings.NewReader(strings.ReplaceAll(smallLog, "192.0.2.1", fmt.Sprintf("192.0.2.%d", 10+i))))
		require.NoError(t, err)
		logs = append(logs, log)
	}
	for i, log := range logs {
		_, err := call(s, "compare", queryOf(log, "gcra 1/s"))
		if i == 0 {
			require.ErrorContains(t, err, "drop the file onto the page again")
		} else {
			require.NoError(t, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	tracetest.Answers(t, "testdata/errors.txt", func(question string) string {
		method, changes, _ := strings.Cut(question, " ")
		q := query("gcra 10/m")
		require.NoError(t, json.Unmarshal([]byte(changes), &q))
		var request any = q
		if method == "explain" || method == "trace" {
			request = compare.ExplainRequest{Query: q}
		}
		_, err := call(compare.NewService(), method, request)
		require.Error(t, err, question)
		return err.Error()
	})
	for body, want := range map[string]string{
		``:                     "not valid JSON",
		`[]`:                   "not valid JSON",
		`{"spec":"gcra 1/s"}`:  `unknown field "spec"`,
		`{"specs":["gcra`:      "not valid JSON",
		`{"specs":"gcra 1/s"}`: "not valid JSON",
	} {
		_, err := compare.NewService().Call(context.Background(), "compare", strings.NewReader(body), func(float64) {})
		require.ErrorContains(t, err, want, "%q", body)
	}
	_, err := call(compare.NewService(), "compare", query("gcra"))
	require.NoError(t, err, "the page shows the others")
	_, err = call(compare.NewService(), "explain", compare.ExplainRequest{Query: query("gcra 10/m"), Number: 501})
	require.ErrorContains(t, err, "no call 502; want 1 to")
}

func TestInvalidLogsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		log  io.Reader
		want string // how the error begins
	}{
		"empty":      {strings.NewReader(""), "the log is empty"},
		"no times":   {strings.NewReader("GET /\nGET /a\n"), "2 of 2 lines are not log lines"},
		"picture":    {strings.NewReader("\x89PNG\r\n\x1a\n\x00\x00"), "3 of 3 lines are not log lines"},
		"bzip2":      {strings.NewReader("BZh91AY&SY\n"), "the log is compressed with bzip2; decompress it with bzcat"},
		"names":      {strings.NewReader(strings.ReplaceAll(smallLog, "192.0.2.1", "client.example.net")), "3 of 3 requests have a client that is no address"},
		"cut gzip":   {strings.NewReader(clitest.Gzipped(smallLog)[:5]), "the log: the gzip file is cut short or damaged before its first line"},
		"cut upload": {io.MultiReader(strings.NewReader(smallLog), iotest.ErrReader(io.ErrUnexpectedEOF)), "the log: unexpected EOF"},
	} {
		_, err := read(compare.NewService(), c.log)
		require.Error(t, err, name)
		response := string(compare.Response(nil, err))
		require.True(t, strings.HasPrefix(response, `{"error":"`+c.want), "%s: %s", name, response)
	}
}

// The race detector checks that an upload that fails after the response shares nothing with it.
func TestACancelledLogEnds(t *testing.T) {
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		body, upload := io.Pipe()
		go func() {
			_, _ = io.WriteString(upload, smallLog)
			cancel()
			_ = upload.CloseWithError(io.ErrUnexpectedEOF)
		}()
		_, err := compare.NewService().Call(ctx, "log", body, func(float64) {})
		require.Error(t, err)
	}
}

func TestACanceledRequestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	q := query(all...)
	q.Stream.Requests = simulate.MaxArrivals
	body, err := json.Marshal(q)
	require.NoError(t, err)
	_, err = compare.NewService().Call(ctx, "compare", bytes.NewReader(body), func(float64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

// TestProgressCountsRequests: not their calls, of which a denied request has 20 here.
func TestProgressCountsRequests(t *testing.T) {
	const query = `{"specs": ["gcra 1/h"], "stream": {"kind": "steady", "requests": 10000, "length": 60, "clients": 1}, "reaction": "retry"}`
	var shares []float64
	_, err := compare.NewService().Call(context.Background(), "compare", strings.NewReader(query), func(share float64) { shares = append(shares, share) })
	require.NoError(t, err)
	require.Greater(t, len(shares), 10)
	require.IsIncreasing(t, shares[:10])
	require.IsNonDecreasing(t, shares)
	require.LessOrEqual(t, shares[len(shares)-1], 1.0)
}

// FuzzCall: no request makes the service panic, and every result can be encoded.
func FuzzCall(f *testing.F) {
	small := query("gcra 10/m burst=3", "movingwindow 5/s slots=3")
	small.Stream.Requests = 20
	for _, kind := range []string{"steady", "edge", "crowd", "worst", "greedy"} {
		small.Stream.Kind = kind
		body, err := json.Marshal(small)
		require.NoError(f, err)
		f.Add("compare", body)
	}
	body, err := json.Marshal(compare.ExplainRequest{Query: small, Number: 3})
	require.NoError(f, err)
	f.Add("explain", body)
	f.Add("trace", body)
	f.Add("log", []byte(smallLog))
	service := compare.NewService()
	f.Fuzz(func(t *testing.T, method string, body []byte) {
		var size struct {
			compare.Query
			Inner compare.Query `json:"query"`
		}
		_ = json.Unmarshal(body, &size)
		for _, q := range []compare.Query{size.Query, size.Inner} {
			if q.Stream.Requests > 1000 || q.Stream.Kind == "log" || q.Stream.Kind == "edge" && len(q.Specs) > 2 {
				t.Skip("slow")
			}
		}
		got, err := service.Call(context.Background(), method, bytes.NewReader(body), func(float64) {})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		_, err = json.Marshal(got)
		require.NoError(t, err)
	})
}
