package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/trace"
)

// ExplainRequest selects one call of a Query: the call with that number, or the call nearest to a time.
type ExplainRequest struct {
	Query  Query    `json:"query"`
	Policy int      `json:"policy"` // the index of the spec
	Number int      `json:"number"` // from 0
	Near   *float64 `json:"near"`   // if it is not null, Number has no effect
}

// Decision is one call with its whole Result. Durations are texts, exact to the microsecond.
type Decision struct {
	Number      int     `json:"number"`
	Calls       int     `json:"calls"` // of the whole run
	At          float64 `json:"at"`
	AtText      string  `json:"at_text"`
	Now         string  `json:"now"` // by the clock that decided
	Client      string  `json:"client"`
	Attempt     int     `json:"attempt"`
	Process     int     `json:"process"` // from 1
	Prepaid     bool    `json:"prepaid"` // the process had bought the call ahead
	Bought      int64   `json:"bought"`  // the further calls that the process bought with this one
	Allowed     bool    `json:"allowed"`
	Limit       int64   `json:"limit"`
	Cost        int64   `json:"cost"`
	Available   int64   `json:"available"`
	Refilled    int64   `json:"refilled"`
	Paid        int64   `json:"paid"`
	Remaining   int64   `json:"remaining"`
	RetryAfter  string  `json:"retry_after"`
	NextRefill  string  `json:"next_refill"`
	ResetAfter  string  `json:"reset_after"`
	Fresh       bool    `json:"fresh"`
	Skew        string  `json:"skew"`
	Part        int     `json:"part"`       // from 1; 0 if the policy has no parts
	ExactWait   string  `json:"exact_wait"` // by an exact log of the allowed calls
	Unnecessary bool    `json:"unnecessary"`
}

// run returns a run of the policy of a request.
func (s *Service) run(ctx context.Context, e *ExplainRequest) (*preparedQuery, *simulate.Run, error) {
	c, err := s.prepare(ctx, &e.Query)
	if err != nil {
		return nil, nil, err
	}
	if e.Policy < 0 || e.Policy >= len(c.policies) || c.policies[e.Policy].Policy == nil {
		return nil, nil, fmt.Errorf("no valid policy %d", e.Policy+1)
	}
	run, err := simulate.New(c.policies[e.Policy], c.stream, c.options)
	return c, run, err
}

func (s *Service) explain(ctx context.Context, e *ExplainRequest, progress Progress) (*Decision, error) {
	c, run, err := s.run(ctx, e)
	if err != nil {
		return nil, err
	}
	var found *simulate.Call
	err = forEach(run, reporter(ctx, len(c.stream.Arrivals), progress), func(call *simulate.Call) {
		if e.prefers(c, call, found) {
			copied := *call
			found = &copied
		}
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("no call %d; want 1 to %d", e.Number+1, run.Outcome().Calls)
	}
	return c.decision(c.policies[e.Policy], found, int(run.Outcome().Calls)), nil
}

// prefers reports whether the call matches the request better than the one that was found before.
func (e *ExplainRequest) prefers(c *preparedQuery, call, before *simulate.Call) bool {
	if e.Near == nil {
		return call.Number == e.Number
	}
	distance := func(call *simulate.Call) float64 { return math.Abs(c.since(call.At) - *e.Near) }
	return before == nil || distance(call) < distance(before)
}

func (c *preparedQuery) decision(policy costed.Policy, call *simulate.Call, calls int) *Decision {
	r := &call.Result
	d := &Decision{
		Number: call.Number, Calls: calls, At: c.since(call.At), AtText: c.timeText(call.At), Now: c.timeText(call.Now),
		Client: c.stream.Clients[call.Client], Attempt: call.Attempt, Process: call.Process + 1, Prepaid: call.Prepaid, Bought: call.Bought,
		Allowed: r.Allowed, Limit: r.Limit, Cost: r.Cost, Available: r.Available, Refilled: r.Refilled, Paid: r.Paid, Remaining: r.Remaining,
		RetryAfter: waitText(r.RetryAfter), NextRefill: waitText(r.NextRefill), ResetAfter: waitText(r.ResetAfter),
		Fresh: r.Fresh, Skew: readable.Exact(r.Skew), ExactWait: waitText(call.ExactWait), Unnecessary: call.Unnecessary(),
	}
	if compose.StackOf(policy.Policy) != nil {
		d.Part = int(r.Part) + 1
	}
	return d
}

// timeText returns a time of a log, or the time since the start of a generated stream.
func (c *preparedQuery) timeText(at int64) string {
	if c.query.Stream.Kind == "log" {
		return time.UnixMicro(at).UTC().Format("2006-01-02 15:04:05.999999") + " UTC"
	}
	return readable.Exact(time.Duration(at-c.start) * time.Microsecond)
}

func waitText(d time.Duration) string {
	if d == algo.Never {
		return "never"
	}
	return readable.Exact(d)
}

// Text is a file that the page offers for download.
type Text struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// maxTraced is the largest number of calls of an exported trace.
const maxTraced = 50_000

// trace returns the calls of one policy as a trace with its decisions.
func (s *Service) trace(ctx context.Context, e *ExplainRequest) (*Text, error) {
	c, run, err := s.run(ctx, e)
	if err != nil {
		return nil, err
	}
	if c.options.Prepay.Calls > 0 {
		return nil, errors.New("a trace cannot have calls that were bought ahead; set Prepay calls to 0")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Check these decisions with: sluice replay --check FILE\npolicy %v\n\n#at key cost\n", c.policies[e.Policy])
	for call, err := range run.Calls() {
		if err != nil {
			return nil, err
		}
		if call.Number == maxTraced {
			return nil, fmt.Errorf("the stream has more than %d calls, too many for a trace; choose fewer requests, or a part of the log", maxTraced)
		}
		key := "all"
		if !c.options.Shared {
			key = traceWord.Replace(c.stream.Clients[call.Client])
		}
		fmt.Fprintf(&b, "@%v %s %d ->\n", time.Duration(call.Now-simulate.Epoch.UnixMicro())*time.Microsecond, key, call.Cost)
	}
	parsed, err := trace.Parse(&b, "the trace")
	if err != nil {
		return nil, err
	}
	ran, err := parsed.Run()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := ran.Format(&out); err != nil {
		return nil, err
	}
	return &Text{"sluice.trace", out.String()}, nil
}

// traceWord escapes what has a meaning in a trace, in the way of accesslog.Keyer, whose keys have no
// other backslash.
var traceWord = strings.NewReplacer(" ", `\x20`, "#", `\x23`, "->", `\x2d>`)

// rules returns the policies as a rule file.
func rules(q *Query) (*Text, error) {
	policies, faults, err := q.policies()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(faults, func(err error) bool { return err != nil }); i >= 0 {
		return nil, fmt.Errorf("policy %d: %s", i+1, errorText(faults[i]))
	}
	var b strings.Builder
	b.WriteString("# These rules decide together: a request is allowed if all of them allow it.\n# Keep the one that you want. See sluice check --help.\n")
	if !q.Shared {
		b.WriteString("# A rule by ip limits all addresses of an IPv6 /64 together. The page limits each address.\n")
	}
	b.WriteString("rules:\n")
	for i, p := range policies {
		fmt.Fprintf(&b, "  - name: policy-%d\n    policy: %v\n", i+1, p.Policy)
		if p.Cost > 1 {
			fmt.Fprintf(&b, "    cost: %d\n", p.Cost)
		}
		if !q.Shared {
			b.WriteString("    by: ip\n")
		}
	}
	return &Text{"limits.yaml", b.String()}, nil
}
