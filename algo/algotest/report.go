package algotest

import (
	"fmt"
	"strings"
)

// report is what is printed of a law that does not hold.
func (h *hunt) report(f *finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "algotest: law %d, %s, does not hold for %s (seed %d):\n    %s\n\n    %s\n\n",
		h.law.number, h.law.name, h.subject.Name, seed, h.law.sentence, f.fault.text)
	for line := range strings.Lines(trace(h.subject, f.past.history(), f.limit)) {
		b.WriteString("    " + line)
	}
	fmt.Fprintf(&b, "    # judged at %s, state %x", offset(f.now), f.past.state)
	for _, e := range f.fault.probes[max(0, len(f.fault.probes)-6):] {
		fmt.Fprintf(&b, "\n    # %-6v %s cost %d: %s, left %d, retry %s, next %s, reset %s", e.op, offset(e.at), e.cost,
			e.verdict(), e.r.Remaining, wait(e.r.RetryAfter), wait(e.r.NextRefill), wait(e.r.ResetAfter))
	}
	return b.String()
}
