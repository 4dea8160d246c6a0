package fleet

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// rules is how many rules every limiter has: one by key, and one for all keys or by key
// as well.
const rules = 2

var ruleNames = [rules]string{"key", "all"}

// A traffic is a limiter of two rules and how many keys are asked for. Both rules deny
// most of what is asked.
type traffic struct {
	name    string
	keys    int
	byKey   bool // both rules are by key, so that no two keys share a rule
	own     bool // each process has keys of its own
	specs   [rules]string
	oracles [rules]algotest.Oracle // the naive accounts of the two
}

// slow is the index of the last traffic.
const slow = 6

var traffics = []traffic{
	{
		name: "1 key, gcra and movingwindow", keys: 1,
		specs: [rules]string{"gcra 10/h burst=12", "movingwindow 80/8h slots=8"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(10, time.Hour), 12),
			algotest.MovingWindow(algo.Per(80, 8*time.Hour), 8, false),
		},
	},
	{
		name: "1 key, tokenbucket and fixedwindow", keys: 1,
		specs: [rules]string{"tokenbucket 10/h burst=12", "fixedwindow 80/8h"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(10, time.Hour), 12),
			algotest.WindowFromFirst(algo.Per(80, 8*time.Hour)),
		},
	},
	{
		name: "50 keys, gcra and movingwindow", keys: 50,
		specs: [rules]string{"gcra 1/h burst=6", "movingwindow 40/4h slots=4 trailing=whole"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(1, time.Hour), 6),
			algotest.MovingWindow(algo.Per(40, 4*time.Hour), 4, true),
		},
	},
	{
		name: "50 keys, tokenbucket and fixedwindow", keys: 50,
		specs: [rules]string{"tokenbucket 3/3h burst=6 refill=interval", "fixedwindow 20/2h align=clock"},
		oracles: [rules]algotest.Oracle{
			algotest.IntervalBucket(algo.Per(3, 3*time.Hour), 6),
			algotest.WindowByClock(algo.Per(20, 2*time.Hour), 0),
		},
	},
	{
		name: "6 keys, no shared rule", keys: 6, byKey: true,
		specs: [rules]string{"gcra 1/h burst=6", "fixedwindow 5/4h"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(1, time.Hour), 6),
			algotest.WindowFromFirst(algo.Per(5, 4*time.Hour)),
		},
	},
	{
		name: "keys of their own, no shared rule", keys: 2, byKey: true, own: true,
		specs: [rules]string{"tokenbucket 1/h burst=6", "movingwindow 20/16h slots=4"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(1, time.Hour), 6),
			algotest.MovingWindow(algo.Per(20, 16*time.Hour), 4, false),
		},
	},
	{
		// The state of the second rule lapses in no test, however far an outage
		// moves the clock: what the store forgets, shows.
		name: "1 key, gcra and a long movingwindow", keys: 1,
		specs: [rules]string{"gcra 10/h burst=12", "movingwindow 100000/100000h slots=4"},
		oracles: [rules]algotest.Oracle{
			algotest.Bucket(algo.Per(10, time.Hour), 12),
			algotest.MovingWindow(algo.Per(100_000, 100_000*time.Hour), 4, false),
		},
	},
}

func (t *traffic) policies() (found [rules]algo.Policy, err error) {
	for i, spec := range t.specs {
		if found[i], err = compose.ParsePolicy(spec); err != nil {
			return found, err
		}
	}
	return found, nil
}

// key draws a key for a member, those with low numbers more often.
func (t *traffic) key(random *rand.Rand, member int) string {
	key := fmt.Sprint(min(random.IntN(t.keys), random.IntN(t.keys)))
	if t.own {
		key = fmt.Sprint(member, " ", key)
	}
	return key
}

// keyOf is the key by which a rule limits calls for a key.
func (t *traffic) keyOf(rule int, key string) string {
	if rule == 0 || t.byKey {
		return key
	}
	return ""
}

// storedKey is where the state of a rule is stored.
func (t *traffic) storedKey(namespace string, rule int, key string) string {
	return driver.Key("", namespace, ruleNames[rule], t.keyOf(rule, key))
}

// asked is the input of a limiter whose decisions go into a journal. The entry's
// key and cost are fixed; all else is under the lock, because a decision whose
// caller has left may yet be made.
type asked struct {
	entry
	mu      sync.Mutex
	careful bool               // tell of every decision that is about to be committed,
	left    bool               // or of those that are when the caller has left
	tell    func(*entry) error // nil: nobody
}

// noting is a policy that notes what it steps on, and what it makes of it.
type noting struct {
	algo.Policy
	rule int
	a    *asked
}

func (n noting) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := n.Policy.Step(dst, state, now, cost)
	if err == nil {
		err = n.a.note(n.rule, now, step{clone(state), clone(next[len(dst):]), r})
	}
	return next, r, err
}

func (a *asked) note(rule int, now time.Time, s step) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Now, a.Steps[rule] = now.UnixNano(), s
	if rule < rules-1 || a.tell == nil || !a.careful && !a.left || !a.allowed() {
		return nil
	}
	e := a.entry
	return a.tell(&e)
}

// answered notes what the caller was told, when the clock said so.
func (a *asked) answered(d compose.Decision, f fate, err error, reading int64) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.entry
	a.left = true
	e.Return, e.Cached, e.Attempts, e.Fate = reading, d.Cached, d.Attempts, f
	for i := range d.Results {
		e.Steps[i].Result = d.Results[i].Result
	}
	if err != nil {
		e.Err = err.Error()
	}
	return &e
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// limiter makes a limiter that notes its decisions.
func (t *traffic) limiter(o compose.Options[*asked], store storage.Store) (*compose.Limiter[*asked], error) {
	policies, err := t.policies()
	if err != nil {
		return nil, err
	}
	var rs [rules]compose.Rule[*asked]
	for i := range rs {
		rs[i] = compose.Rule[*asked]{
			Name:      ruleNames[i],
			Key:       func(a *asked) string { return t.keyOf(i, a.Key) },
			PolicyFor: func(a *asked) (algo.Policy, error) { return noting{policies[i], i, a}, nil },
			Cost:      func(a *asked) int64 { return a.Cost },
		}
	}
	return o.New(store, rs[:]...)
}
