package simulate

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/cmd/sluice/internal/backtest"
	"github.com/sluice-go/sluice/internal/costed"
	"github.com/sluice-go/sluice/internal/policy"
)

// Reaction is what a client does when a call is denied.
type Reaction string

// The reactions.
const (
	Ignore  Reaction = "ignore"  // give up
	Retry   Reaction = "retry"   // call again every 100ms
	Backoff Reaction = "backoff" // call again after 1s, then 2s, 4s and so on, each shortened by up to a half at random
	Wait    Reaction = "wait"    // call again when RetryAfter has passed
)

// maxAttempts is how many calls a client makes for one request.
var maxAttempts = map[Reaction]int{Ignore: 1, Retry: 20, Backoff: 8, Wait: 50}

// Options configure a run. The zero Options are one process whose clock is exact, and clients that
// give up.
type Options struct {
	Reaction  Reaction        // empty: Ignore
	Shared    bool            // all clients share one key
	Skews     []time.Duration // how far the clock of each process is ahead; empty: one process. Calls go to the processes in turn
	OwnClocks bool            // each process decides by its own clock; otherwise the clock of the store, which is exact, decides
	Prepay    sluice.Prepay   // of each process. A purchase takes no time
	Seed      uint64          // of the random part of Backoff
}

// Call is one call of a client, and the decision.
type Call struct {
	Number  int   // from 0, in the order of time
	At      int64 // microseconds since the Unix epoch
	Now     int64 // the same by the clock that decided
	Client  int32
	Times   int64 // Arrival.Times, at least 1
	Cost    int64 // units
	Attempt int   // 1 for the first call of a request
	Process int
	Result  algo.Result
	Prepaid bool  // the process had bought the call ahead. Then Result has the units that were left by the purchase
	Bought  int64 // how many further calls the process bought with this one
	// ExactWait is the wait by an exact log of the allowed calls; 0 if it allows the call. If
	// Result denies the call although ExactWait is 0, the denial was unnecessary.
	ExactWait time.Duration
}

// Unnecessary reports whether the exact log would have allowed the denied call.
func (c *Call) Unnecessary() bool { return !c.Result.Allowed && c.ExactWait == 0 }

// Outcome has the counts of a run. Members with a name are in the JSON of the page.
type Outcome struct {
	backtest.Counts          // of calls
	Calls            int64   `json:"calls"`
	Prepaid          int64   `json:"prepaid"`     // calls that were bought ahead, so that they did not ask the store
	Unnecessary      int64   `json:"unnecessary"` // denied calls that an exact log of the allowed calls would have allowed
	Unserved         int64   `json:"unserved"`    // requests without an allowed call
	Worst            int64   `json:"worst"`       // the most units that one key was admitted in any interval as long as the period; of a stack, the units of its first part
	WorstEnd         int64   `json:"-"`           // the last instant of that period, in microseconds since the Unix epoch
	AllowedByProcess []int64 `json:"allowed_by_process"`
}

// Run is a simulation. Only one goroutine may use it, and only once.
type Run struct {
	policy  costed.Policy
	limit   algo.Limit // of the exact logs
	stream  Stream
	options Options
	keys    []key
	purses  map[purseID]*purse
	queue   queue
	random  *rand.Rand
	outcome Outcome
	spare   []byte
	level   *Level
}

// key has the state of one key.
type key struct {
	state []byte
	exact backtest.Window
}

// New returns a run.
func New(policy costed.Policy, stream Stream, o Options) (*Run, error) {
	o.Reaction = cmp.Or(o.Reaction, Ignore)
	if maxAttempts[o.Reaction] == 0 {
		return nil, fmt.Errorf("simulate: unknown reaction %q; want ignore, retry, backoff or wait", o.Reaction)
	}
	if len(o.Skews) == 0 {
		o.Skews = []time.Duration{0}
	}
	keys := max(1, len(stream.Clients))
	if o.Shared {
		keys = 1
	}
	return &Run{
		policy: policy, limit: policy.Limit(),
		stream: stream, options: o, keys: make([]key, keys), purses: make(map[purseID]*purse),
		random:  rand.New(rand.NewPCG(o.Seed, 6)),
		outcome: Outcome{AllowedByProcess: make([]int64, len(o.Skews))},
		level:   new(Level),
	}, nil
}

// Calls runs the simulation and yields each call. The pointer is the same every time. After an error
// it ends.
func (r *Run) Calls() iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		var c Call
		for next := 0; r.pop(&next, &c); {
			err := r.decide(&c)
			if !yield(&c, err) || err != nil {
				return
			}
		}
		r.level.upTo(r, algo.MaxInstant)
		r.level.flush()
	}
}

// pop sets c to the next call: an arrival, or a retry. It returns false if there is none.
func (r *Run) pop(next *int, c *Call) bool {
	arrivals := r.stream.Arrivals
	var a attempt
	switch {
	case *next < len(arrivals) && (len(r.queue) == 0 || arrivals[*next].At <= r.queue[0].At):
		a = attempt{arrivals[*next], 1}
		*next++
	case len(r.queue) > 0:
		a = heap.Pop(&r.queue).(attempt)
	default:
		return false
	}
	times := max(1, a.Times)
	cost := policy.MulDiv(r.policy.Cost, times, 1)
	*c = Call{At: a.At, Client: a.Client, Times: times, Cost: cost, Attempt: a.number}
	return true
}

// decide decides a call and counts it.
func (r *Run) decide(c *Call) error {
	c.Number = int(r.outcome.Calls)
	c.Process = c.Number % len(r.options.Skews)
	c.Now = c.At
	if r.options.OwnClocks {
		c.Now += r.options.Skews[c.Process].Microseconds()
	}
	r.level.upTo(r, c.At)
	k := r.key(c.Client)
	if err := r.spend(k, c); err != nil {
		return err
	}
	c.ExactWait = k.exact.Wait(r.limit, c.At, c.Cost)
	r.level.note(r, c)
	r.count(k, c)
	if !c.Result.Allowed {
		r.react(c)
	}
	return nil
}

func (r *Run) key(client int32) *key {
	if r.options.Shared {
		client = 0
	}
	return &r.keys[client]
}

// step decides a call of that cost by the policy.
func (r *Run) step(k *key, c *Call, cost int64) (err error) {
	var next []byte
	next, c.Result, err = r.policy.Step(r.spare[:0], k.state, time.UnixMicro(c.Now), cost)
	if err != nil {
		return err
	}
	r.spare = next
	k.state = append(k.state[:0], next...) // also after a denial, which can begin a penalty
	return nil
}

func (r *Run) count(k *key, c *Call) {
	o := &r.outcome
	o.Calls++
	if c.Prepaid {
		o.Prepaid++
	}
	if c.Result.Allowed {
		o.Allowed++
		o.AllowedByProcess[c.Process]++
		if sum := k.exact.Add(r.limit, c.At, c.Cost); sum > o.Worst {
			o.Worst, o.WorstEnd = sum, c.At
		}
		return
	}
	if c.Unnecessary() {
		o.Unnecessary++
	}
	o.Deny(c.Result.RetryAfter)
}

// react queues the next call of a denied client, or gives up.
func (r *Run) react(c *Call) {
	var wait time.Duration
	switch r.options.Reaction {
	case Retry:
		wait = 100 * time.Millisecond
	case Backoff:
		longest := time.Second << (c.Attempt - 1)
		wait = longest - time.Duration(r.random.Int64N(int64(longest/2)))
	case Wait:
		wait = c.Result.RetryAfter
	case Ignore:
	}
	if c.Attempt >= maxAttempts[r.options.Reaction] || wait == algo.Never || wait.Microseconds() > algo.MaxInstant-c.At {
		r.outcome.Unserved++
		return
	}
	heap.Push(&r.queue, attempt{Arrival{At: c.At + wait.Microseconds(), Client: c.Client, Times: c.Times}, c.Attempt + 1})
}

// Outcome returns the counts so far.
func (r *Run) Outcome() Outcome { return r.outcome }

// attempt is a call before its decision.
type attempt struct {
	Arrival
	number int // from 1
}

// queue is the next calls of denied clients, as a heap by time. It can have one for each request.
type queue []attempt

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].At < q[j].At || q[i].At == q[j].At && q[i].Client < q[j].Client
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(attempt)) }

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
