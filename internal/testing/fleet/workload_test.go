package fleet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// rules is the number of rules of each limiter: one by key, and one for all keys or also by key.
const rules = 2

var ruleNames = [rules]string{"key", "all"}

// workload is a limiter with two rules, and the keys of the calls. Both rules deny most calls.
type workload struct {
	name  string
	keys  int
	byKey bool // both rules are by key, so that no two keys share a rule
	own   bool // each process has its own keys
	specs [rules]string
}

// longWindow is the index of the last workload.
const longWindow = 6

var workloads = []workload{
	{"1 key, gcra and movingwindow", 1, false, false, [rules]string{"gcra 10/h burst=12", "movingwindow 80/8h slots=8"}},
	{"1 key, tokenbucket and fixedwindow", 1, false, false, [rules]string{"tokenbucket 10/h burst=12", "fixedwindow 80/8h"}},
	{"50 keys, gcra and movingwindow", 50, false, false, [rules]string{"gcra 1/h burst=6", "movingwindow 40/4h slots=4 trailing=whole"}},
	{"50 keys, tokenbucket and fixedwindow", 50, false, false, [rules]string{"tokenbucket 3/3h burst=6 refill=interval", "fixedwindow 20/2h align=clock"}},
	{"6 keys, no shared rule", 6, true, false, [rules]string{"gcra 1/h burst=6", "fixedwindow 5/4h"}},
	{"own keys, no shared rule", 2, true, true, [rules]string{"tokenbucket 1/h burst=6", "movingwindow 20/16h slots=4"}},
	// The state of the second rule never expires in a test, even if the clock advances far during an
	// outage. So lost state is found.
	{"1 key, gcra and a long movingwindow", 1, false, false, [rules]string{"gcra 10/h burst=12", "movingwindow 100000/100000h slots=4"}},
}

func (t *workload) policies() (found [rules]algo.Policy) {
	for i, spec := range t.specs {
		found[i] = sluice.MustPolicy(spec)
	}
	return found
}

// key returns a random key for a member. Keys with low numbers are more frequent.
func (t *workload) key(random *rand.Rand, member int) string {
	key := fmt.Sprint(min(random.IntN(t.keys), random.IntN(t.keys)))
	if t.own {
		key = fmt.Sprint(member, " ", key)
	}
	return key
}

// keyOf returns the key that a rule uses for calls with a key.
func (t *workload) keyOf(rule int, key string) string {
	if rule == 0 || t.byKey {
		return key
	}
	return ""
}

// storedKey returns the key of a rule in the store.
func (t *workload) storedKey(namespace string, rule int, key string) string {
	kind, _, _ := strings.Cut(t.specs[rule], " ")
	return driver.RuleKey{Rule: driver.Rule(namespace, ruleNames[rule], kind), Key: t.keyOf(rule, key)}.String()
}

// recordedCall is the input of a limiter whose decisions are written to a journal. Key and Cost of the
// entry are constant. The mutex guards the other fields, because a request may be decided after its call
// was cancelled.
type recordedCall struct {
	entry
	mu       sync.Mutex
	careful  bool                  // write each decision that is about to be committed
	returned bool                  // the call has returned; write later decisions of it
	write    func(entry any) error // may be nil
}

// recordingPolicy records the arguments and results of Step.
type recordingPolicy struct {
	algo.Policy
	rule int
	a    *recordedCall
}

func (n recordingPolicy) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	next, r, err := n.Policy.Step(dst, state, now, cost)
	if err == nil {
		err = n.a.record(n.rule, now, step{bytes.Clone(state), bytes.Clone(next[len(dst):]), r})
	}
	return next, r, err
}

func (a *recordedCall) record(rule int, now time.Time, s step) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Now, a.Steps[rule] = now.UnixNano(), s
	if rule < rules-1 || a.write == nil || !a.careful && !a.returned || !a.allowed() {
		return nil
	}
	e := a.entry
	return a.write(&e)
}

// result records the result of the call. reading is the clock after the call.
func (a *recordedCall) result(d sluice.Decision, f outcome, err error, reading int64) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.entry
	a.returned = true
	e.Return, e.Outcome = reading, f
	for i := range d.Results {
		e.Steps[i].Result = d.Results[i].Result
	}
	if err != nil {
		e.Err = err.Error()
	}
	return &e
}

// limiter returns a limiter that records its decisions.
func (t *workload) limiter(o sluice.Options[*recordedCall], store storage.Store) (*sluice.Limiter[*recordedCall], error) {
	policies := t.policies()
	var rs [rules]sluice.Rule[*recordedCall]
	for i := range rs {
		rs[i] = sluice.Rule[*recordedCall]{
			Name:      ruleNames[i],
			Key:       func(a *recordedCall) string { return t.keyOf(i, a.Key) },
			PolicyFor: func(a *recordedCall) (algo.Policy, error) { return recordingPolicy{policies[i], i, a}, nil },
			Cost:      func(a *recordedCall) int64 { return a.Cost },
		}
	}
	return o.New(store, rs[:]...)
}
