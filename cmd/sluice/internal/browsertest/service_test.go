package browsertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

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
