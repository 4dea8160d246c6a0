package suggest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/errtext"
	"github.com/sluice-go/sluice/internal/policy"
)

// Suggestion is the smallest number in a template whose policy meets a goal. Log, Template, Cost and Goal say
// what to find, and Run finds the rest. Its JSON is a part of the output, which the help documents.
type Suggestion struct {
	Name     string   `json:"-"` // in tables
	Log      *Log     `json:"-"`
	Template Template `json:"-"`
	Cost     int64    `json:"-"` // of a request in units; 0: as in the template
	Goal     Goal     `json:"-"`

	Spec string `json:"template"`
	// Found reports whether a number meets the goal. If not, Best is Peak, and Tighter is nil.
	Found     bool      `json:"found"`
	Requests  int64     `json:"requests"`
	Keys      int64     `json:"keys"`
	MaxDenied int64     `json:"max_denied"` // the most requests or clients that may be denied
	Best      Candidate `json:"best"`
	Interval  string    `json:"interval"`
	Bound     int64     `json:"bound"`
	Wait      string    `json:"longest_wait"`
	Never     int64     `json:"never"`
	// Tighter is the number below Best, which does not meet the goal. It is nil if that number is 0
	// or gives no valid policy.
	Tighter *Candidate `json:"tighter"`
	// Irregular is a larger number than Best that does not meet the goal, although Best does; nil
	// if the search met none.
	Irregular *Candidate         `json:"irregular"`
	TopDenied []backtest.Denials `json:"top_denied"` // the keys that Best denies, the most denied first
	Curve     []Candidate        `json:"curve"`      // from about a hundredth of Best to Peak, in rising order
	Peak      Candidate          `json:"-"`          // the smallest number that denies as few requests as the largest useful one
}

// Total returns the number of requests, or of clients if the goal is a share of clients.
func (s *Suggestion) Total() int64 {
	if s.Goal.Of == OfClients {
		return s.Log.Clients()
	}
	return s.Log.Len()
}

// Candidate is a policy with a number in place of the ?, and what it denies.
type Candidate struct {
	Spec   string        `json:"policy,omitempty"` // empty in a curve
	Number int64         `json:"number"`
	Policy costed.Policy `json:"-"` // the zero Policy if the number gives none
	Counts
}

// isValid reports whether the number gives a valid policy.
func (c *Candidate) isValid() bool { return c.Policy.Policy != nil }

// window is how many numbers below the found one the search tries. More of them would only matter
// if a smaller number denied far less than larger ones.
const window = 16

// Run searches. It calls progress before each replay.
func Run(ctx context.Context, progress func(), suggestions ...*Suggestion) error {
	var errs []error
	for _, s := range suggestions {
		run := search{Suggestion: s, ctx: ctx, progress: progress, counts: make(map[int64]Candidate)}
		run.run()
		errs = append(errs, run.err)
	}
	return errors.Join(errs...)
}

// search fills a Suggestion. After an error its methods do nothing more.
type search struct {
	*Suggestion
	ctx      context.Context
	progress func()
	err      error // the first one
	counts   map[int64]Candidate
}

func (s *search) run() {
	s.Spec, s.Requests, s.Keys = s.Template.String(), s.Log.Len(), s.Log.Clients()
	s.MaxDenied = s.Goal.Allowed(s.Total())
	largest := s.largest()
	best := s.tightest(largest)
	s.Peak = s.peak(cmp.Or(best, largest), largest)
	for s.err == nil {
		s.Curve = s.curve(cmp.Or(best, s.Peak.Number), s.Peak.Number)
		less := s.smallest(true, 0, cmp.Or(best, math.MaxInt64))
		if less == 0 {
			break
		}
		best = s.tightest(less) // a number of the curve meets the goal
	}
	s.Found = best > 0
	s.finish(cmp.Or(best, s.Peak.Number))
}

// largest returns the largest number that can make a difference: with it no key exceeds the capacity of the policy. If another
// number, such as burst=1, limits the capacity, it returns the largest number that gives a valid policy.
func (s *search) largest() int64 {
	if enough := s.enough(); s.meets(enough) {
		return enough
	}
	isValid := func(n int64) bool {
		_, err := s.Template.Policy(n)
		return err == nil
	}
	for n := algo.MaxCount; n > 0; n /= 2 {
		if isValid(n) { // a large burst can take longer to refill than a policy allows
			return bisect(n, 2*n, func(n int64) bool { return n > algo.MaxCount || !isValid(n) }) - 1
		}
	}
	s.err = cmp.Or(s.err, fmt.Errorf("suggest: %v: found no number that gives a valid policy; use a smaller burst or a shorter period", s.Template))
	return 1
}

// enough returns the units of all requests of the key with the most, at most 2^40. As a capacity it
// denies nothing.
func (s *search) enough() int64 {
	p, err := s.Template.Policy(1)
	if err != nil {
		p, err = s.Template.Policy(algo.MaxCount)
	}
	if s.err = err; err != nil {
		return 1
	}
	return min(policy.MulDiv(s.cost(p), max(1, s.Log.most()), 1), algo.MaxCount)
}

// cost returns the cost of a request.
func (s *search) cost(p costed.Policy) int64 { return cmp.Or(s.Cost, p.Cost) }

// meets reports whether a number meets the goal. A number that gives no valid policy does not.
func (s *search) meets(n int64) bool {
	c := s.count(n)
	return c.isValid() && s.Goal.Count(&c.Counts) <= s.MaxDenied
}

// replay counts what the policy with the number n denies, also by key if byKey is not nil. If the number gives no valid policy, or
// after an error, the result is not valid.
func (s *search) replay(n int64, byKey []int64) Candidate {
	p, err := s.Template.Policy(n)
	if err != nil || s.err != nil {
		return Candidate{Number: n}
	}
	s.progress()
	r := counter{policy: p.Policy, cost: s.cost(p), byKey: byKey}
	r.keys = s.Log.above(config.Capacity(r.policy) / r.cost) // no algorithm denies a key before it has spent its capacity
	counts, err := r.run(s.ctx)
	if s.err = err; err != nil {
		return Candidate{Number: n}
	}
	return Candidate{p.String(), n, p, counts}
}

// tightest returns a number up to most that meets the goal while the number below it does not. It returns
// 0 if it finds none.
func (s *search) tightest(most int64) int64 {
	high := doubleAndBisect(1, most, s.meets)
	for n := high - 1; n >= 1 && n >= high-window; n-- {
		if s.meets(n) {
			high = n
		}
	}
	return high
}

// doubleAndBisect returns a number that meets the goal while the number below it does not. It doubles from until
// that meets the goal, and then bisects. It returns 0 if neither a double up to most nor most meets the goal.
func doubleAndBisect(from, most int64, meets func(int64) bool) int64 {
	low, high := int64(0), from
	for !meets(high) {
		if high == most {
			return 0
		}
		low, high = high, min(2*high, most) // most is at most 2^40, so nothing overflows
	}
	return bisect(low, high, meets)
}

// bisect returns a number in (low, high] that meets the goal while the number below it does not. high
// must meet the goal, and low must not.
func bisect(low, high int64, meets func(int64) bool) int64 {
	for high-low > 1 {
		if middle := low + (high-low)/2; meets(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// smallest returns the smallest number between low and high that was counted and meets the goal, or does not
// meet it. It returns 0 if there is none.
func (s *search) smallest(meets bool, low, high int64) (smallest int64) {
	for n := range s.counts {
		if low < n && n < high && (smallest == 0 || n < smallest) && s.meets(n) == meets {
			smallest = n
		}
	}
	return smallest
}

// peak returns the smallest number that denies no more requests than the largest one.
func (s *search) peak(from, largest int64) Candidate {
	denied := s.count(largest).Denied
	return s.count(doubleAndBisect(from, largest, func(n int64) bool {
		c := s.count(n)
		return c.isValid() && c.Denied <= denied
	}))
}

// curve returns the counts of rising round numbers from about a hundredth of best to peak, with best,
// the number below best, and peak. It leaves out numbers that give no valid policy.
func (s *search) curve(best, peak int64) (curve []Candidate) {
	last := max(best, peak)
	numbers := []int64{max(1, best-1), best, last}
	for ten := int64(1); ten <= algo.MaxCount/10; ten *= 10 {
		for _, digit := range [...]int64{10, 15, 20, 30, 50, 70} {
			if n := ten * digit / 10; best/100 <= n && n <= last {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		if c := s.count(n); c.isValid() {
			c.Spec = ""
			curve = append(curve, c)
		}
	}
	return curve
}

// count returns the result of replay. It replays each number once.
func (s *search) count(n int64) Candidate {
	c, seen := s.counts[n]
	if seen {
		return c
	}
	if c = s.replay(n, nil); c.isValid() {
		s.counts[n] = c
	}
	return c
}

// finish sets what is shown of the policy with the number, and of those below and above it.
func (s *search) finish(best int64) {
	byKey := make([]int64, s.Keys)
	s.Best = s.replay(best, byKey)
	if s.err != nil {
		return
	}
	period := s.Best.Policy.Limit().Period
	s.Interval, s.Bound = period.String(), s.Best.Policy.Bound(period)
	s.Wait, s.Never = s.Best.LongestWait.String(), s.Best.Never
	s.TopDenied = []backtest.Denials{} // nil would be null in JSON
	for i, n := range byKey {
		if n > 0 {
			s.TopDenied = append(s.TopDenied, backtest.Denials{Key: s.Log.sorted[i].name, Denied: n})
		}
	}
	backtest.SortDenials(s.TopDenied)
	if !s.Found {
		return
	}
	if tighter := s.count(best - 1); tighter.isValid() {
		s.Tighter = &tighter
	}
	if n := s.smallest(false, best, math.MaxInt64); n > 0 {
		larger := s.count(n)
		s.Irregular = &larger
	}
}

// Goal says how much of a log a policy must leave untouched.
type Goal struct {
	Share *big.Rat // from 0 to 1
	Of    Unit
}

// Unit is what a share is a share of.
type Unit string

const (
	// OfRequests counts requests that are not denied.
	OfRequests Unit = "requests"
	// OfClients counts keys of which no request is denied.
	OfClients Unit = "clients"
)

// Count returns the count that the goal limits.
func (g Goal) Count(c *Counts) int64 {
	if g.Of == OfClients {
		return c.ClientsDenied
	}
	return c.Denied
}

// Allowed returns the most of total that can be denied, so that at least the share is left. It rounds down.
func (g Goal) Allowed(total int64) int64 {
	return cli.Part(new(big.Rat).Sub(big.NewRat(1, 1), g.Share), total)
}

// ParseShare parses a percentage above 0%, such as 99.9%.
func ParseShare(s string) (*big.Rat, error) {
	if share, ok := cli.ParsePercentage(s); ok && share.Sign() > 0 {
		return share, nil
	}
	hint := ""
	if share, ok := cli.ParsePercentage(s + "%"); ok && share.Cmp(big.NewRat(1, 100)) >= 0 { // 0.999 does not mean 0.999%
		hint = "; did you mean " + s + "%?"
	}
	return nil, fmt.Errorf("%s: want a percentage above 0%% and at most 100%%, such as 99.9%%%s", errtext.Quote(s), hint)
}
