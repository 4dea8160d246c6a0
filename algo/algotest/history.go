package algotest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// An op is an operation of a policy.
type op int

const (
	step op = iota
	peek
	refund
	charge
)

var allOps = []op{step, peek, refund, charge}

func (o op) String() string { return [...]string{"step", "peek", "refund", "charge"}[o] }

// An event is a call of a policy and its result.
type event struct {
	limit algo.Limit
	op    op
	at    int64 // ns since the Unix epoch
	cost  int64
	r     algo.Result
	err   error
}

// epoch is time 0 of a trace.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// An offset is an instant in ns since the Unix epoch. Its String is that of a trace.
type offset int64

func (o offset) String() string { return "@" + time.Duration(int64(o)-epoch.UnixNano()).String() }

func formatWait(d time.Duration) string {
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
		fmt.Sprint(e.r.Remaining), formatWait(e.r.RetryAfter), formatWait(e.r.ResetAfter),
	}
}

// trace formats a history as a trace. A policy line precedes each change of the limit. last is
// the limit after the history.
func trace(s Subject, history []event, last algo.Limit) string {
	rows := [][]string{{"#at", "key", "cost", "  ", "verdict", "left", "retry", "reset"}}
	for _, e := range history {
		rows = append(rows, e.columns())
	}
	lines := table(rows)

	var b strings.Builder
	var limit algo.Limit
	setLimit := func(l algo.Limit) {
		if l != limit {
			fmt.Fprintf(&b, "policy %s\n", spec(s, l))
			limit = l
		}
	}
	for i, e := range history {
		setLimit(e.limit)
		if i == 0 {
			fmt.Fprintln(&b, lines[0])
		}
		fmt.Fprintln(&b, lines[i+1])
	}
	setLimit(last)
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

// after returns t+d, at most math.MaxInt64.
func after(t int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + int64(d)
}
