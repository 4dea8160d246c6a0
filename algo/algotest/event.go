package algotest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// An op is one of the four verbs of a policy.
type op int

const (
	step op = iota
	peek
	refund
	charge
)

func (o op) String() string { return [...]string{"step", "peek", "refund", "charge"}[o] }

// An event is one call on the key and what it answered.
type event struct {
	limit algo.Limit // in force at the event
	op    op
	at    int64 // ns since the Unix epoch
	cost  int64
	r     algo.Result
	err   error
}

// epoch is where the times of a trace are counted from.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// An offset is an instant as a trace writes it.
type offset int64

func (o offset) String() string { return "@" + time.Duration(int64(o)-epoch.UnixNano()).String() }

// wait writes a duration as a trace does.
func wait(d time.Duration) string {
	if d == algo.Never {
		return "never"
	}
	return d.String()
}

func (e event) verdict() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.op == refund || e.op == charge:
		return e.op.String()
	case e.r.Allowed:
		return "ok"
	}
	return "deny"
}

func (e event) columns() []string {
	return []string{
		offset(e.at).String(), "a", fmt.Sprint(e.cost), "->", e.verdict(),
		fmt.Sprint(e.r.Remaining), wait(e.r.RetryAfter), wait(e.r.ResetAfter),
	}
}

// trace writes a history that ends under a limit as a golden file has it, with
// a policy line wherever the limit changes.
func trace(s Subject, history []event, end algo.Limit) string {
	rows := [][]string{{"#at", "key", "cost", "  ", "verdict", "left", "retry", "reset"}}
	for _, e := range history {
		rows = append(rows, e.columns())
	}
	lines := table(rows)

	var b strings.Builder
	var limit algo.Limit
	under := func(l algo.Limit) {
		if l != limit {
			fmt.Fprintf(&b, "policy %s\n", spec(s, l))
			limit = l
		}
	}
	for i, e := range history {
		under(e.limit)
		if i == 0 {
			fmt.Fprintln(&b, lines[0])
		}
		fmt.Fprintln(&b, lines[i+1])
	}
	under(end)
	return b.String()
}

func spec(s Subject, l algo.Limit) string {
	p, err := s.New(l)
	if err != nil {
		return l.String()
	}
	return p.String()
}

// table pads the columns to equal width.
func table(rows [][]string) []string {
	var width [8]int
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&b, "%-*s ", width[i], cell)
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// after is t+d, or an instant past the end of time where the sum is beyond it.
func after(t int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + int64(d)
}
