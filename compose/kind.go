package compose

import (
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/calendar"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
	"github.com/sluice-go/sluice/inflight"
	"github.com/sluice-go/sluice/movingwindow"
	"github.com/sluice-go/sluice/tokenbucket"
)

// maxKind is the most bytes in the kind of a policy that is not from this module.
const maxKind = 64

// Kind returns a text that is the same for policies that can read each other's states. It is part of the key of a limiter's
// record.
//
// The kind of an algorithm is its name. That of a Stack has the kinds and periods of its parts in the order of their states, such
// as "all(fixedwindow/h,gcra/s)". That of your own policy is the first word of its String, cut to 64 bytes.
func Kind(p algo.Policy) string {
	switch p := p.(type) {
	case gcra.Policy:
		return "gcra"
	case tokenbucket.Policy:
		return "tokenbucket"
	case fixedwindow.Policy:
		return "fixedwindow"
	case movingwindow.Policy:
		return "movingwindow"
	case inflight.Policy:
		return "inflight"
	case calendar.Policy:
		return "calendar"
	case *Penalty:
		if p.Inner() == nil {
			return "penalty()"
		}
		return "penalty(" + Kind(p.inner) + ")"
	case *Stack:
		return p.kind
	}
	word, _, _ := strings.Cut(p.String(), " ")
	return word[:min(len(word), maxKind)]
}
