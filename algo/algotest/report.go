package algotest

import (
	"fmt"
	"strings"
)

// report describes a violation.
func (s *search) report(v *violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "algotest: law %d, %s, is broken by %s (seed %d):\n    %s\n\n    %s\n\n",
		s.number, s.law.name, s.subject.Name, seed, s.law.sentence, v.failure.text)
	for line := range strings.Lines(trace(s.subject, v.past.history(), v.limit)) {
		b.WriteString("    " + line)
	}
	fmt.Fprintf(&b, "    # checked at %s, state %x", offset(v.now), v.past.state)
	for _, e := range v.failure.probes[max(0, len(v.failure.probes)-6):] {
		fmt.Fprintf(&b, "\n    # %-6v %s cost %d: %s, left %d, retry %s, next %s, reset %s", e.op, offset(e.at), e.cost,
			e.verdict(), e.r.Remaining, formatWait(e.r.RetryAfter), formatWait(e.r.NextRefill), formatWait(e.r.ResetAfter))
	}
	return b.String()
}
