package browsertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// query is a request to the service, with the members of the type Query of package compare.
type query struct {
	Specs     []string  `json:"specs"`
	Stream    stream    `json:"stream"`
	Reaction  string    `json:"reaction"`
	Shared    bool      `json:"shared"`
	Skews     []float64 `json:"skews"`
	OwnClocks bool      `json:"own_clocks"`
	Prepay    prepay    `json:"prepay"`
}

type prepay struct {
	Calls int     `json:"calls"`
	For   float64 `json:"for"`
}

type stream struct {
	Kind     string  `json:"kind"`
	Requests int     `json:"requests"`
	Length   float64 `json:"length"`
	Clients  int     `json:"clients"`
	Seed     int     `json:"seed"`
	Target   int     `json:"target"`
	Log      string  `json:"log"`
}

// comparison is the part of the response that the tests read.
type comparison struct {
	Policies []struct {
		Spec             string
		Calls            int
		Allowed          int
		Denied           int
		Unnecessary      int
		Unserved         int
		Worst            int
		Bound            int
		AllowedByProcess []int `json:"allowed_by_process"`
		Prepaid          int
	}
}

// steady returns a query with requests at equal distances: one each second.
func steady(seconds int, specs ...string) query {
	return query{
		Specs:    specs,
		Stream:   stream{Kind: "steady", Requests: seconds, Length: float64(seconds), Clients: 1, Seed: 1},
		Reaction: "ignore",
	}
}

// settings returns the query as the page writes it after # in its address.
func (q query) settings() string {
	v := url.Values{"p": q.Specs}
	s := q.Stream
	for name, value := range map[string]string{
		"kind":         s.Kind,
		"requests":     strconv.Itoa(s.Requests),
		"length":       strconv.FormatFloat(s.Length, 'f', -1, 64),
		"clients":      strconv.Itoa(s.Clients),
		"seed":         strconv.Itoa(s.Seed),
		"target":       strconv.Itoa(s.Target + 1),
		"after-denial": q.Reaction,
	} {
		v.Set(name, value)
	}
	if q.Shared {
		v.Set("shared", "yes")
	}
	if len(q.Skews) > 0 {
		v.Set("clocks-ahead", strings.Trim(strings.ReplaceAll(fmt.Sprint(q.Skews), " ", ","), "[]"))
	}
	if q.OwnClocks {
		v.Set("clock", "own")
	}
	return v.Encode()
}

// compare sends the query to the service from within the page, and returns the comparison.
func (b *tab) compare(q query) comparison {
	b.t.Helper()
	body, err := json.Marshal(q)
	require.NoError(b.t, err)
	text := eval[string](b, "fetch('api/compare', { method: 'POST', body: %s }).then((r) => r.text())", quote(string(body)))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var reply struct {
		Result comparison
		Error  string
	}
	require.NoError(b.t, json.Unmarshal([]byte(lines[len(lines)-1]), &reply))
	require.Empty(b.t, reply.Error)
	return reply.Result
}

// requireTable compares the table of results with that of the service.
func (b *tab) requireTable(a comparison) {
	b.t.Helper()
	rows := b.table()
	require.Len(b.t, rows, len(a.Policies))
	for i, p := range a.Policies {
		row := rows[i]
		require.Contains(b.t, row["Policy"], p.Spec)
		for column, n := range map[string]int{
			"Calls": p.Calls, "Allowed": p.Allowed, "Denied": p.Denied, "Most in a period": p.Worst, "Bound": p.Bound,
			"Unnecessary denials": p.Unnecessary, "Requests never served": p.Unserved,
		} {
			require.Equal(b.t, n, row.number(b.t, column), "%s of %s", column, p.Spec)
		}
		if p.Prepaid > 0 {
			require.Equal(b.t, p.Prepaid, row.number(b.t, "Bought ahead"), p.Spec)
		}
		if len(p.AllowedByProcess) > 1 {
			var counts []string
			for i, n := range p.AllowedByProcess {
				counts = append(counts, fmt.Sprintf("%d: %d", i+1, n))
			}
			require.Equal(b.t, strings.Join(counts, ", "), row["Allowed by process"], p.Spec)
		}
	}
}

func TestEachKindOfRequestsAndEachReactionIsDrawn(t *testing.T) {
	t.Parallel()
	b := open(t, "kind=steady&requests=2000&length=3600&clients=1&seed=1&p=gcra+30/m&p=tokenbucket+30/m&p=fixedwindow+30/m&p=movingwindow+30/m")
	for i, kind := range []string{"poisson", "edge", "greedy", "crowd", "worst", "log", "bursts", "steady"} {
		reaction := [...]string{"wait", "retry", "backoff", "ignore"}[i%4]
		b.changes(func() { b.choose("#reaction", reaction) })
		b.changes(func() { b.choose("#kind", kind) })
		q := query{
			Specs:    b.specs(),
			Stream:   stream{Kind: kind, Requests: 2000, Length: 3600, Clients: 1, Seed: 1},
			Reaction: reaction,
		}
		b.requireTable(b.compare(q))
		for i, row := range b.table() {
			require.Positive(t, row.number(t, "Allowed"), kind)
			require.Positive(t, b.pixels(i+1, allowedColour), kind)
			require.Equal(t, row.number(t, "Denied") > 0, b.pixels(i+1, deniedColour) > 0, "%s: %v", kind, row)
		}
	}
	require.Empty(t, b.messages())
}

// A request each second, from 1s to 10s.
func TestNumbersOfAKnownStream(t *testing.T) {
	t.Parallel()
	b := open(t, steady(10, "gcra 1/5s", "fixedwindow 3/20s", "gcra 1/s").settings())
	rows := b.table()
	for i, want := range []row{
		{"Calls": "10", "Allowed": "2", "Denied": "8", "Share denied": "80.0%", "Most in a period": "1 in 5s", "Longest wait": "4s", "Requests never served": "8"},
		{"Calls": "10", "Allowed": "3", "Denied": "7", "Share denied": "70.0%", "Most in a period": "3 in 20s", "Longest wait": "17s", "Requests never served": "7"},
		{"Calls": "10", "Allowed": "10", "Denied": "0", "Share denied": "0.0%", "Most in a period": "1 in 1s", "Longest wait": "0s", "Requests never served": "0"},
	} {
		for column, text := range want {
			require.Equal(t, text, rows[i][column], "%s of %s", column, rows[i]["Policy"])
		}
	}
}

func TestProcessesAndTheirClocks(t *testing.T) {
	t.Parallel()
	q := steady(600, "gcra 10/m", "fixedwindow 90/m")
	b := open(t, q.settings())
	require.NotContains(t, b.table()[0], "Allowed by process")
	b.changes(func() { b.enter("#processes", "2") })
	for _, c := range []struct {
		change func()
		ahead  float64
		own    bool
	}{
		{func() { b.click("button[data-clocks=five]") }, 5, false},
		{func() { b.choose("#clock", "own") }, 5, true},
		{func() { b.enter("#skews label:nth-child(2) input", "30") }, 30, true},
		{func() { b.click("button[data-clocks=exact]") }, 0, true},
	} {
		b.changes(c.change)
		q.Skews, q.OwnClocks = []float64{0, c.ahead}, c.own
		require.Contains(t, b.table()[0], "Allowed by process")
		b.requireTable(b.compare(q))
	}

	require.NotContains(t, b.table()[0], "Bought ahead")
	b.changes(func() { b.enter("#requests", "6000") })
	b.changes(func() { b.enter("#prepay-calls", "50") })
	b.changes(func() { b.enter("#prepay-for", "2.5") })
	q.Stream.Requests, q.Prepay = 6000, prepay{50, 2.5}
	c := b.compare(q)
	require.Positive(t, c.Policies[1].Prepaid)
	b.requireTable(c)
}

// The last of many changes is the one that is drawn at the end.
func TestPictureFollowsADraggedSlider(t *testing.T) {
	t.Parallel()
	q := query{
		Specs:    []string{"gcra 30/m", "tokenbucket 30/m", "fixedwindow 30/m", "movingwindow 30/m slots=12"},
		Stream:   stream{Kind: "poisson", Requests: 10_000, Length: 18_000, Clients: 1, Seed: 1},
		Reaction: "ignore",
	}
	b := open(t, q.settings())
	at := eval[struct{ X, Y, Width, Height float64 }](b, `(() => {
		const e = document.querySelector('article[aria-label="Policy 1"] input[type=range]');
		e.scrollIntoView({ block: 'center' });
		return e.getBoundingClientRect().toJSON();
	})()`)
	y := at.Y + at.Height/2
	b.do(chromedp.MouseEvent(chromedp.MousePressed, at.X+at.Width/3, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	specs := []string{b.specs()[0]}
	for i := range 40 {
		b.do(chromedp.MouseEvent(chromedp.MouseMoved, at.X+at.Width*(1./3+float64(i)/80), y, chromedp.ButtonLeft))
		specs = append(specs, b.specs()[0])
	}
	b.do(chromedp.MouseEvent(chromedp.MouseReleased, at.X+at.Width*0.8, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	require.Greater(t, len(slices.Compact(specs)), 20, "the spec does not follow the slider")

	q.Specs[0] = b.specs()[0]
	b.wait("document.querySelector('#results tbody code').textContent === %s", quote(q.Specs[0]))
	b.requireTable(b.compare(q))
}

var worstSentence = regexp.MustCompile(`^The search found (\d+) units in 1m; the bound is (\d+)\.$`)

func TestBreakItButton(t *testing.T) {
	t.Parallel()
	b := open(t, "p=gcra+30/m&p=tokenbucket+30/m&p=fixedwindow+30/m&p=movingwindow+30/m+slots=12&kind=greedy")
	before := b.table()
	for i := range 4 {
		b.changes(func() { b.button(i+1, "Break it") })
		sentence := b.text(note(i + 1))
		found := worstSentence.FindStringSubmatch(sentence)
		require.NotNil(t, found, sentence)
		most, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		row := b.table()[i]
		require.Equal(t, most, row.number(t, "Most in a period"))
		require.Equal(t, found[2], row["Bound"])
		require.LessOrEqual(t, most, row.number(t, "Bound"))
		require.Greater(t, most, 29, "no worse than a limit of 30 on its own")
		require.Empty(t, b.text(note((i+1)%4+1)), "the note of another policy")
	}
	require.NotEqual(t, before, b.table())
	b.changes(func() { b.button(4, "Back") })
	require.Equal(t, before, b.table())
	require.Equal(t, "greedy", eval[string](b, "document.querySelector('#kind').value"))
	require.Empty(t, b.text(note(4)))
}

// note returns the selector of the sentence about the search in the card of a policy.
func note(policy int) string {
	return fmt.Sprintf(`article[aria-label="Policy %d"] .worst-note`, policy)
}
