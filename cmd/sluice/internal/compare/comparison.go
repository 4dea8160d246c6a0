package compare

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/readable"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/costed"
)

// Comparison is the result of a Query.
type Comparison struct {
	Start    string   `json:"start"` // the time 0, in RFC 3339; empty for a generated stream
	From     float64  `json:"from"`  // the view
	To       float64  `json:"to"`
	End      float64  `json:"end"`   // of the whole time, with the calls that follow a denial, under any policy
	Width    float64  `json:"width"` // of a bar
	Requests int      `json:"requests"`
	Clients  []Client `json:"clients"` // the clients with the most requests
	Others   int      `json:"others"`  // clients that are not in the list
	Client   string   `json:"client"`  // whose level is drawn
	Policies []Policy `json:"policies"`
}

// Client is a client with its number of requests.
type Client struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
}

// Policy is the result of one policy. If Error is not empty, the other members but Spec are zero.
type Policy struct {
	Spec       string  `json:"spec"`
	Error      string  `json:"error,omitempty"`
	Capacity   int64   `json:"capacity"` // the most units available at once
	Count      int64   `json:"count"`    // of the limit
	Period     float64 `json:"period"`   // of the limit
	PeriodText string  `json:"period_text"`
	simulate.Outcome
	Allowed     int64   `json:"allowed"`
	Never       int64   `json:"never"`
	LongestWait string  `json:"longest_wait"` // rounded; a Decision has the exact wait
	WorstFrom   float64 `json:"worst_from"`
	WorstTo     float64 `json:"worst_to"`
	Bound       int64   `json:"bound"` // the most that the policy promises to admit in a period, with calls that were bought ahead
	Bars        Bars    `json:"bars"`
	Level       Level   `json:"level"`
	Marks       *Marks  `json:"marks"` // nil if there are too many in the view
}

// Bars has the calls in the view, in bars of equal width.
type Bars struct {
	Allowed []int64 `json:"allowed"`
	Denied  []int64 `json:"denied"`
}

// Level has the remaining units over time for one client.
type Level struct {
	At   []float64 `json:"at"`
	Left []int64   `json:"left"`
}

// Marks has the single calls in the view.
type Marks struct {
	Number  []int     `json:"number"` // for ExplainRequest.Number
	At      []float64 `json:"at"`
	Allowed []bool    `json:"allowed"`
}

const (
	barCount     = 60
	levelSamples = 480
	maxMarks     = 2000
	listed       = 50 // clients
)

// preparedQuery is a valid query with the inputs that its policies share.
type preparedQuery struct {
	query    *Query
	policies []costed.Policy
	faults   []error
	options  simulate.Options
	stream   simulate.Stream
	start    int64 // the time 0, in microseconds since the Unix epoch
	client   int32
}

func (s *Service) prepare(ctx context.Context, q *Query) (*preparedQuery, error) {
	c := &preparedQuery{query: q}
	var err error
	if c.policies, c.faults, err = q.policies(); err != nil {
		return nil, err
	}
	if c.options, err = q.options(); err != nil {
		return nil, err
	}
	if c.stream, err = s.stream(ctx, q.Stream, c.policies); err != nil {
		return nil, err
	}
	c.start = simulate.Epoch.UnixMicro()
	if q.Stream.Kind == "log" {
		c.start = c.stream.Arrivals[0].At
	}
	c.client = int32(slices.Index(c.stream.Clients, q.View.Client))
	return c, nil
}

// since returns an instant in seconds since the start.
func (c *preparedQuery) since(at int64) float64 {
	return (time.Duration(at-c.start) * time.Microsecond).Seconds()
}

// instant returns the instant at that many seconds since the start, rounded, so that it is the inverse of since. A view
// may reach beyond the instants of package algo.
func (c *preparedQuery) instant(since float64) int64 {
	first, last := c.since(0), c.since(algo.MaxInstant)+1
	return c.start + int64(math.Round(min(max(since, first), last)*1e6))
}

func (s *Service) compare(ctx context.Context, q *Query, progress Progress) (*Comparison, error) {
	c, err := s.prepare(ctx, q)
	if err != nil {
		return nil, err
	}
	arrivals := c.stream.Arrivals
	r := &Comparison{Requests: len(arrivals)}
	if q.Stream.Kind == "log" {
		r.Start = time.UnixMicro(c.start).UTC().Format(time.RFC3339Nano)
	}
	c.listClients(r)
	r.End = c.since(arrivals[len(arrivals)-1].At)
	if generated[q.Stream.Kind] != nil {
		r.End = max(r.End, q.Stream.Length)
	}
	runs := 1
	r.From, r.To = q.View.From, q.View.To
	whole := !(r.To > r.From)
	if whole {
		r.From, r.To = 0, afterEnd(r)
	}
	if whole && q.Reaction != simulate.Ignore && q.Reaction != "" {
		runs = 2
	}
	report := reporter(ctx, runs*len(arrivals)*len(c.policies), progress)
	err = c.decideAll(r, report)
	if whole && err == nil && r.To < afterEnd(r) { // clients have called again after the view
		r.To = afterEnd(r)
		err = c.decideAll(r, report)
	}
	return r, err
}

// afterEnd returns a time after the last call.
func afterEnd(r *Comparison) float64 { return r.End + max(r.End/100, 0.001) }

// decideAll runs all policies. If their calls last longer than r.End, it sets r.End to the time of the last call.
func (c *preparedQuery) decideAll(r *Comparison, report func(requests int64) error) error {
	r.Width = (r.To - r.From) / barCount
	r.Policies = make([]Policy, len(c.policies))
	last, faults := make([]int64, len(c.policies)), make([]error, len(c.policies))
	var all sync.WaitGroup
	for i := range c.policies {
		all.Go(func() { last[i], faults[i] = c.decide(r, i, report) })
	}
	all.Wait()
	r.End = max(r.End, c.since(slices.Max(last)))
	return errors.Join(faults...)
}

// reporter returns a function that adds to the requests that are done, of total ones, and calls progress.
// It returns the error of ctx.
func reporter(ctx context.Context, total int, progress Progress) func(requests int64) error {
	var done atomic.Int64
	return func(requests int64) error {
		progress(float64(done.Add(requests)) / float64(total))
		return ctx.Err()
	}
}

// forEach runs to the end and calls f for each call. Now and then it reports new requests. An error of
// report ends it.
func forEach(run *simulate.Run, report func(requests int64) error, f func(*simulate.Call)) error {
	requests := int64(0)
	for call, err := range run.Calls() {
		if err != nil {
			return err
		}
		if call.Attempt == 1 {
			requests++
		}
		if call.Number%8192 == 8191 {
			if err := report(requests); err != nil {
				return err
			}
			requests = 0
		}
		f(call)
	}
	return nil
}

func (c *preparedQuery) listClients(r *Comparison) {
	counts := make([]Client, len(c.stream.Clients))
	for i, name := range c.stream.Clients {
		counts[i].Name = name
	}
	most := int32(0)
	for _, a := range c.stream.Arrivals {
		counts[a.Client].Requests++
		if counts[a.Client].Requests > counts[most].Requests {
			most = a.Client
		}
	}
	if c.client < 0 {
		c.client = most
	}
	drawn := counts[c.client]
	r.Client = drawn.Name
	slices.SortStableFunc(counts, func(a, b Client) int { return cmp.Compare(b.Requests, a.Requests) })
	r.Clients = counts[:min(len(counts), listed)]
	r.Others = len(counts) - len(r.Clients)
	if !slices.Contains(r.Clients, drawn) {
		r.Clients = append(slices.Clip(r.Clients), drawn)
		r.Others--
	}
}

// decide runs one policy and writes its result into r. It returns the instant of the last call.
func (c *preparedQuery) decide(r *Comparison, i int, report func(requests int64) error) (last int64, err error) {
	p, out := c.policies[i], &r.Policies[i]
	out.Spec = c.query.Specs[i]
	if p.Policy == nil {
		out.Error = errorText(c.faults[i])
		return c.start, nil
	}
	run, err := simulate.New(p, c.stream, c.options)
	if err != nil {
		return c.start, err
	}
	from, to := c.instant(r.From), c.instant(r.To)
	level := &simulate.Level{Client: c.client, From: from, To: to, Samples: levelSamples}
	run.Watch(level)
	out.Bars = Bars{make([]int64, barCount), make([]int64, barCount)}
	out.Level = Level{[]float64{}, []int64{}}
	marks := &Marks{[]int{}, []float64{}, []bool{}} // a nil slice would be null in JSON
	err = forEach(run, report, func(call *simulate.Call) {
		last = call.At
		if from <= call.At && call.At < to {
			c.draw(r, out, marks, call)
		}
	})
	if err != nil {
		return c.start, err
	}
	if len(marks.At) <= maxMarks {
		out.Marks = marks
	}
	out.fill(c, p, run.Outcome())
	for j, at := range level.At {
		out.Level.At = append(out.Level.At, c.since(at))
		out.Level.Left = append(out.Level.Left, level.Left[j])
	}
	return last, nil
}

// draw adds a call to the bars and the marks.
func (c *preparedQuery) draw(r *Comparison, out *Policy, marks *Marks, call *simulate.Call) {
	at := c.since(call.At)
	bar := min(barCount-1, max(0, int((at-r.From)/r.Width)))
	if call.Result.Allowed {
		out.Bars.Allowed[bar]++
	} else {
		out.Bars.Denied[bar]++
	}
	if len(marks.At) <= maxMarks {
		marks.Number, marks.At = append(marks.Number, call.Number), append(marks.At, at)
		marks.Allowed = append(marks.Allowed, call.Result.Allowed)
	}
}

// fill writes the counts.
func (p *Policy) fill(c *preparedQuery, policy costed.Policy, o simulate.Outcome) {
	limit := policy.Limit()
	p.Spec = policy.String()
	p.Count, p.Period, p.PeriodText = limit.Count, limit.Period.Seconds(), readable.Exact(limit.Period)
	p.Capacity = config.Capacity(policy)
	p.Outcome, p.Allowed, p.Never, p.LongestWait = o, o.Allowed, o.Never, readable.Rounded(o.LongestWait)
	p.WorstTo = c.since(o.WorstEnd)
	p.WorstFrom = p.WorstTo - limit.Period.Seconds()
	p.Bound = policy.Bound(limit.Period)
	if o.Prepaid > 0 { // otherwise no call was allowed later than it was charged
		p.Bound = policy.Bound(limit.Period + c.options.Prepay.For)
	}
}

// errorText returns the text of an error in a spec, with the wrong word marked.
func errorText(err error) string {
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		return bad.Problem + "\n" + bad.Caret()
	}
	return err.Error()
}
