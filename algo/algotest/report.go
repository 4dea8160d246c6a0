package algotest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// report describes a violation.
func (s *search) report(v *violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "algotest: law %d, %s, is broken by %s (seed %d):\n    %s\n\n    %s\n\n",
		s.number, s.law.name, s.subject.Name, seed, s.law.sentence, v.text)
	for line := range strings.Lines(s.trace(v.history, v.limit)) {
		b.WriteString("    " + line)
	}
	fmt.Fprintf(&b, "    # checked at %s, state %x", offset(v.now), v.state)
	for _, e := range v.probes[max(0, len(v.probes)-6):] {
		fmt.Fprintf(&b, "\n    # %-6v %s cost %d: %s, left %d, retry %s, next %s, reset %s", e.op, offset(e.at), e.cost,
			e.verdict(), e.r.Remaining, formatWait(e.r.RetryAfter), formatWait(e.r.NextRefill), formatWait(e.r.ResetAfter))
	}
	return b.String()
}

// trace formats a history as a trace. A policy line precedes each change of the limit. last is
// the limit after the history.
func (s *search) trace(history []event, last algo.Limit) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	var limit algo.Limit
	setLimit := func(l algo.Limit) {
		if l == limit {
			return
		}
		spec := l.String()
		if p, err := s.new(l); err == nil {
			spec = p.String()
		}
		fmt.Fprintf(w, "policy %s\n", spec)
		limit = l
	}
	for i, e := range history {
		setLimit(e.limit)
		if i == 0 {
			fmt.Fprintln(w, "#at\tkey\tcost\t  \tverdict\tleft\tretry\treset")
		}
		fmt.Fprintf(w, "%s\ta\t%s\t->\t%s\t%d\t%s\t%s\n", offset(e.at), e.opAndCost(), e.verdict(),
			e.r.Remaining, formatWait(e.r.RetryAfter), formatWait(e.r.ResetAfter))
	}
	setLimit(last)
	_ = w.Flush() // a strings.Builder returns no error
	return b.String()
}

// opAndCost returns the third word of a trace line, such as "2" or "refund:2".
func (e event) opAndCost() string {
	if e.op == step {
		return fmt.Sprint(e.cost)
	}
	return fmt.Sprintf("%v:%d", e.op, e.cost)
}

func (e event) verdict() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.r.Allowed:
		return "ok"
	}
	return "deny"
}

func formatWait(d time.Duration) string {
	if d == algo.Never {
		return "never"
	}
	return d.String()
}

// shrink looks for a shorter history, earlier times and smaller costs that also break the
// law. replay returns the violation after a history, or nil.
func shrink(v *violation, replay func(history []event, limit algo.Limit, now int64) *violation) *violation {
	budget := 2000
	for found := true; found; {
		found = false
		for history, now := range simpler(v.history, v.now) {
			if budget--; budget < 0 {
				return v
			}
			if smaller := replay(history, v.limit, now); smaller != nil {
				v, found = smaller, true
				break
			}
		}
	}
	return v
}

// simpler returns histories that are a little simpler, each with the time of its check.
func simpler(history []event, now int64) iter.Seq2[[]event, int64] {
	return func(yield func([]event, int64) bool) {
		for i := range history {
			if !yield(slices.Delete(slices.Clone(history), i, i+1), now) {
				return
			}
		}
		for i, e := range history {
			for _, cost := range []int64{1, e.cost / 2, e.cost - 1} {
				cheaper := slices.Clone(history)
				cheaper[i].cost = cost
				if cost >= 1 && cost < e.cost && !yield(cheaper, now) {
					return
				}
			}
		}
		last := epoch.UnixMicro()
		for i := 0; i <= len(history); i++ {
			at := now
			if i < len(history) {
				at = history[i].at
			}
			for _, by := range []int64{at - last, (at - last) / 2, min(1, at-last)} {
				if by == 0 || by < 0 && i > 0 {
					continue
				}
				earlier := slices.Clone(history)
				for j := i; j < len(history); j++ {
					earlier[j].at -= by
				}
				if !yield(earlier, now-by) {
					return
				}
			}
			last = at
		}
	}
}

// replay applies a history to a new key and checks the last state.
func (s *search) replay(history []event, limit algo.Limit, now int64) *violation {
	s.checked = visited{}
	n := root()
	for _, e := range history {
		policy, err := s.new(e.limit)
		if err != nil || e.at < 0 || e.at > algo.MaxInstant {
			return nil
		}
		n = s.next(n, policy, e, nil)
	}
	policy, err := s.new(limit)
	if err != nil || now < 0 || now > algo.MaxInstant || !s.law.clockStepsBack && now < n.latest {
		return nil
	}
	return s.check(n, limit, policy, now)
}
