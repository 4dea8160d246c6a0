package compare

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/internal/costed"
)

// Query is a request for a comparison. The page also keeps it in its URL.
type Query struct {
	Specs     []string          `json:"specs"` // 1 to MaxSpecs
	Stream    Stream            `json:"stream"`
	Reaction  simulate.Reaction `json:"reaction"`   // empty: simulate.Ignore
	Shared    bool              `json:"shared"`     // all clients share one key
	Skews     []float64         `json:"skews"`      // how far the clock of each process is ahead; none: one process
	OwnClocks bool              `json:"own_clocks"` // each process decides by its own clock
	Prepay    Prepay            `json:"prepay"`
	View      View              `json:"view"`
}

// Prepay is the sluice.Prepay of the processes.
type Prepay struct {
	Calls int     `json:"calls"` // 0: none are bought ahead
	For   float64 `json:"for"`   // seconds
}

// Stream is the requests of a Query.
type Stream struct {
	Kind     string  `json:"kind"`     // steady, poisson, bursts, edge, greedy, crowd, worst or log
	Requests int     `json:"requests"` // without effect on edge, worst and log
	Length   float64 `json:"length"`   // seconds; without effect on worst and log
	Clients  int     `json:"clients"`  // without effect on worst and log
	Seed     uint64  `json:"seed"`
	Target   int     `json:"target"` // for worst: the index of the policy
	Log      string  `json:"log"`    // for log: the ID of a Log; empty: the bundled sample
}

// View is the part of the result that the page draws.
type View struct {
	From   float64 `json:"from"`
	To     float64 `json:"to"`     // not above From: the whole time
	Client string  `json:"client"` // whose level is drawn; empty: the client with the most requests
}

// Limits of a Query.
const (
	MaxSpecs     = 12
	MaxProcesses = 16
	maxClients   = 1000
	maxLength    = 366 * 24 * time.Hour
	maxSkew      = 366 * 24 * time.Hour
	maxPrepaid   = 1 << 20 // as in package sluice
)

// generated has the streams that have a Shape.
var generated = map[string]func(simulate.Shape) simulate.Stream{
	"steady":  simulate.Steady,
	"poisson": simulate.Poisson,
	"bursts":  simulate.Bursts,
	"edge":    simulate.Edge,
	"greedy":  simulate.Greedy,
	"crowd":   simulate.Crowd,
}

// noEnd is why a policy whose units are held cannot be compared.
const noEnd = "the page does not simulate when a request ends"

// policies parses the specs. A spec that does not parse gives a zero policy and its error.
func (q *Query) policies() (policies []costed.Policy, faults []error, err error) {
	if len(q.Specs) == 0 || len(q.Specs) > MaxSpecs {
		return nil, nil, fmt.Errorf("%d policies; want 1 to %d", len(q.Specs), MaxSpecs)
	}
	for _, spec := range q.Specs {
		p, err := costed.ParseRate(spec, noEnd)
		policies, faults = append(policies, p), append(faults, err)
	}
	return policies, faults, nil
}

// options validates the query, except its specs and its stream.
func (q *Query) options() (simulate.Options, error) {
	o := simulate.Options{Reaction: q.Reaction, Shared: q.Shared, OwnClocks: q.OwnClocks, Seed: q.Stream.Seed}
	if len(q.Skews) > MaxProcesses {
		return o, fmt.Errorf("%d processes; want at most %d", len(q.Skews), MaxProcesses)
	}
	for _, s := range q.Skews {
		if !(math.Abs(s) <= maxSkew.Seconds()) {
			return o, fmt.Errorf("a clock is %vs ahead; want at most a year", s)
		}
		o.Skews = append(o.Skews, seconds(s))
	}
	if p := q.Prepay; p.Calls != 0 {
		switch {
		case p.Calls < 0 || p.Calls > maxPrepaid:
			return o, fmt.Errorf("%d calls bought ahead; want 0 to %d", p.Calls, maxPrepaid)
		case !(p.For >= 0.001 && p.For <= 60):
			return o, fmt.Errorf("calls bought ahead for %vs; want 1ms to 1m", p.For)
		}
		o.Prepay = sluice.Prepay{Calls: p.Calls, For: seconds(p.For)}
	}
	return o, nil
}

// stream returns the requests. limit is what the clients of some streams know.
func (s *Service) stream(ctx context.Context, q Stream, policies []costed.Policy) (simulate.Stream, error) {
	limit := algo.Per(30, time.Minute)
	for _, p := range policies {
		if p.Policy != nil {
			limit = p.Limit()
			break
		}
	}
	switch generate, ok := generated[q.Kind]; {
	case ok:
		shape, err := q.shape(limit)
		if err != nil {
			return simulate.Stream{}, err
		}
		return generate(shape), nil
	case q.Kind == "worst":
		if q.Target < 0 || q.Target >= len(policies) || policies[q.Target].Policy == nil {
			return simulate.Stream{}, fmt.Errorf("no valid policy %d to break", q.Target+1)
		}
		stream := simulate.WorstCase(policies[q.Target])
		if len(stream.Arrivals) == 0 {
			return stream, fmt.Errorf("%v never allows a call", policies[q.Target])
		}
		return stream, nil
	case q.Kind == "log":
		return s.logged(ctx, q.Log)
	}
	return simulate.Stream{}, fmt.Errorf("unknown stream %q; want steady, poisson, bursts, edge, greedy, crowd, worst or log", q.Kind)
}

// shape returns the parameters of a generated stream.
func (s Stream) shape(limit algo.Limit) (simulate.Shape, error) {
	switch {
	case s.Requests < 1 || s.Requests > simulate.MaxArrivals:
		return simulate.Shape{}, fmt.Errorf("%d requests; want 1 to %d", s.Requests, simulate.MaxArrivals)
	case !(s.Length >= 0.001) || s.Length > maxLength.Seconds():
		return simulate.Shape{}, fmt.Errorf("a length of %vs; want 1ms to a year", s.Length)
	case s.Clients < 1 || s.Clients > maxClients:
		return simulate.Shape{}, fmt.Errorf("%d clients; want 1 to %d", s.Clients, maxClients)
	}
	return simulate.Shape{Requests: s.Requests, Length: seconds(s.Length), Clients: s.Clients, Limit: limit, Seed: s.Seed}, nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
