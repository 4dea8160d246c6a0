package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// stateKey identifies the states of one stored key.
type stateKey struct {
	rule int
	key  string
}

func (v *verifier) stateKeyOf(rule int, key string) stateKey {
	return stateKey{rule, v.workload.keyOf(rule, key)}
}

// verifier compares the journals of a fleet with Policy.Step.
type verifier struct {
	workload *workload
	policies [rules]algo.Policy
	entries  []*entry
	stored   map[stateKey]string // the stored states at the end

	made   map[stateKey]map[string][]*entry // the entries that left a state, or may have
	chains map[stateKey]*chain
	faults []string
}

// chain is the committed entries of one key, in the order of their commits.
type chain struct {
	stateKey
	entries []*entry
	place   map[*entry]int // in entries
	after   map[string]int // the number of entries up to a state
	latest  []time.Time    // for each entry the latest time up to it
}

const maxFaults = 10

func (v *verifier) fault(format string, args ...any) {
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, fmt.Sprintf(format, args...))
	}
}

func (e *entry) String() string {
	return fmt.Sprintf("member %d caller %d call %d (key %q, cost %d, at %v)",
		e.Member, e.Caller, e.Number, e.Key, e.Cost, e.time().UTC().Format(time.DateTime))
}

func (e *entry) time() time.Time { return time.Unix(0, e.Now) }

// verify returns the faults.
func (v *verifier) verify() []string {
	committed := v.committed()
	v.link(committed)
	if len(v.faults) > 0 {
		return v.faults
	}
	for _, c := range v.chains {
		v.replay(c)
		v.bounds(c)
	}
	v.oneOrder()
	for _, e := range v.entries {
		if e.Outcome == denied {
			v.denial(e)
		}
	}
	return v.faults
}

// committed returns the committed decisions: those with a known outcome, and those with an unknown
// outcome that explain a state that another decision found.
func (v *verifier) committed() []*entry {
	v.made = map[stateKey]map[string][]*entry{}
	var known []*entry
	for _, e := range v.entries {
		if e.Outcome == admitted {
			known = append(known, e)
			v.claim(e)
		}
	}
	guesses, wanted := v.guesses(), v.wanted()
	for {
		missing := v.missing(wanted)
		if len(missing) == 0 {
			return known
		}
		e := guesses.best(wanted, missing)
		if e == nil {
			for _, s := range missing {
				v.fault("rule %s, key %q: no decision left the state %x, but it was found", ruleNames[s.rule], s.key, s.state)
			}
			return known
		}
		guesses.spent[e.decision()] = true
		known = append(known, e)
		v.claim(e)
		for r := range e.Steps {
			wanted[observation{v.stateKeyOf(r, e.Key), string(e.Steps[r].Found)}] = true
		}
	}
}

// observation is a state that was found under a key.
type observation struct {
	stateKey
	state string
}

func (v *verifier) claim(e *entry) {
	for r := range e.Steps {
		l := v.stateKeyOf(r, e.Key)
		if v.made[l] == nil {
			v.made[l] = map[string][]*entry{}
		}
		state := string(e.Steps[r].Next)
		v.made[l][state] = append(v.made[l][state], e)
	}
}

// guesses are the entries of decisions with an unknown outcome, by the states that they would have
// left. A decision is used at most once.
type guesses struct {
	verifier *verifier
	entries  map[observation][]*entry
	spent    map[decision]bool
}

func (v *verifier) guesses() guesses {
	g := guesses{v, map[observation][]*entry{}, map[decision]bool{}}
	certain := map[decision]bool{}
	for _, e := range v.entries {
		certain[e.decision()] = certain[e.decision()] || e.Outcome == admitted || e.Outcome == denied || e.Outcome == refused
	}
	for _, e := range v.entries {
		if !certain[e.decision()] && e.allowed() {
			for r := range e.Steps {
				s := observation{v.stateKeyOf(r, e.Key), string(e.Steps[r].Next)}
				g.entries[s] = append(g.entries[s], e)
			}
		}
	}
	return g
}

// best returns an entry that explains a missing state. It prefers an entry that explains the states of
// both rules. If several entries have the same states, any of them is right.
func (g *guesses) best(wanted map[observation]bool, missing []observation) (best *entry) {
	most := 0
	for _, s := range missing {
		for _, e := range g.entries[s] {
			n := 0
			for r := range e.Steps {
				if wanted[observation{g.verifier.stateKeyOf(r, e.Key), string(e.Steps[r].Next)}] {
					n++
				}
			}
			if n > most && !g.spent[e.decision()] {
				best, most = e, n
			}
		}
	}
	return best
}

// wanted returns the states that need an explanation: those that decisions found, and those that are
// stored at the end.
func (v *verifier) wanted() map[observation]bool {
	wanted := map[observation]bool{}
	for _, e := range v.entries {
		if e.Outcome == admitted || e.Outcome == denied {
			for r := range e.Steps {
				wanted[observation{v.stateKeyOf(r, e.Key), string(e.Steps[r].Found)}] = true
			}
		}
	}
	for l, state := range v.stored {
		wanted[observation{l, state}] = true
	}
	return wanted
}

func (v *verifier) missing(wanted map[observation]bool) (found []observation) {
	for s := range wanted {
		if s.state != "" && len(v.made[s.stateKey][s.state]) == 0 {
			found = append(found, s)
		}
	}
	return found
}

// link orders the committed decisions: each found the state that the previous one left.
func (v *verifier) link(committed []*entry) {
	next := map[observation]*entry{}
	starts, total := map[stateKey][]*entry{}, map[stateKey]int{}
	for _, e := range committed {
		for r := range e.Steps {
			s := observation{v.stateKeyOf(r, e.Key), string(e.Steps[r].Found)}
			total[s.stateKey]++
			switch other := next[s]; {
			case s.state == "":
				starts[s.stateKey] = append(starts[s.stateKey], e)
			case other != nil:
				v.fault("rule %s, key %q: two decisions found the same state and were committed:\n\t%v\n\t%v", ruleNames[r], s.key, other, e)
			default:
				next[s] = e
			}
		}
	}
	v.chains = map[stateKey]*chain{}
	for l, n := range total {
		v.chains[l] = v.follow(l, starts[l], next)
		if got := len(v.chains[l].entries); got != n {
			v.fault("rule %s, key %q: %d decisions of %d are in one order", ruleNames[l.rule], l.key, got, n)
		}
	}
	v.checkStored()
}

// follow builds the chain of a key from its first entries.
func (v *verifier) follow(l stateKey, starts []*entry, next map[observation]*entry) *chain {
	c := &chain{stateKey: l, place: map[*entry]int{}, after: map[string]int{}}
	slices.SortFunc(starts, func(a, b *entry) int { return cmp.Compare(a.Now, b.Now) })
	for _, e := range starts {
		v.begin(c, e)
		for e != nil {
			if _, again := c.place[e]; again {
				break // a cycle
			}
			c.add(e)
			e = next[observation{l, string(e.Steps[l.rule].Next)}]
		}
	}
	return c
}

// checkStored checks that the last decisions left the stored states.
func (v *verifier) checkStored() {
	for l, state := range v.stored {
		left := ""
		if c := v.chains[l]; c != nil && len(c.entries) > 0 {
			left = string(c.entries[len(c.entries)-1].Steps[l.rule].Next)
		}
		if state != left {
			v.fault("rule %s, key %q: the stored state is %x, but the last decision left %x", ruleNames[l.rule], l.key, state, left)
		}
	}
}

// begin begins a chain with an absent state, or goes on after the state has expired.
func (v *verifier) begin(c *chain, e *entry) {
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1].Steps[c.rule].Next
		if r, err := v.policies[c.rule].Peek(last, e.time(), e.Cost); err != nil || !r.Fresh {
			v.fault("rule %s, key %q: the store lost the state before\n\t%v", ruleNames[c.rule], c.key, e)
		}
	}
}

func (c *chain) add(e *entry) {
	now := e.time()
	if i := len(c.entries); i > 0 && c.latest[i-1].After(now) {
		now = c.latest[i-1]
	}
	c.place[e] = len(c.entries)
	c.entries = append(c.entries, e)
	c.latest = append(c.latest, now)
	c.after[string(e.Steps[c.rule].Next)] = len(c.entries)
}

// replay calls Step for the entries of the chain, and compares the results and states.
func (v *verifier) replay(c *chain) {
	var state []byte
	for _, e := range c.entries {
		own := e.Steps[c.rule]
		if len(own.Found) == 0 {
			state = nil
		}
		next, r, err := v.policies[c.rule].Step(nil, state, e.time(), e.Cost)
		if err != nil || !r.Allowed || string(next) != string(own.Next) || r != own.Result {
			v.fault("rule %s: %v\n\thad the result %+v\n\tStep returns %+v, %v", ruleNames[c.rule], e, own.Result, r, err)
		}
		state = next
	}
}

// bounds checks Policy.Bound for each interval that begins and ends with a decision. If the clock of a
// decision was behind an earlier decision, the time of the earlier one counts: by law, no more is
// admitted than if the clock had stopped instead.
func (v *verifier) bounds(c *chain) {
	for i := range c.entries {
		if i > 0 && c.latest[i].Equal(c.latest[i-1]) {
			continue // the interval that begins at the previous entry includes this one
		}
		sum, allowed := int64(0), int64(0)
		for k := i; k < len(c.entries); k++ {
			sum += c.entries[k].Cost
			if sum <= allowed || k+1 < len(c.entries) && c.latest[k].Equal(c.latest[k+1]) {
				continue // a longer interval has the same or a higher bound
			}
			interval := c.latest[k].Sub(c.latest[i]) + 1
			if allowed = v.policies[c.rule].Bound(interval); sum > allowed {
				v.fault("rule %s, key %q: %d units in %v from %v on, the bound is %d", ruleNames[c.rule], c.key, sum, interval, c.latest[i].UTC(), allowed)
				return
			}
		}
	}
}

// oneOrder checks that the decisions of a key have the same order under both rules, and that this
// order is consistent with the times of calls and returns.
func (v *verifier) oneOrder() {
	for l, c := range v.chains {
		if l.rule == 1 {
			v.checkRealTime(c)
			continue
		}
		second := v.chains[v.stateKeyOf(1, l.key)]
		for i := 1; i < len(c.entries); i++ {
			if second.place[c.entries[i-1]] >= second.place[c.entries[i]] {
				v.fault("key %q: the rules have different orders of\n\t%v\n\t%v", c.key, c.entries[i-1], c.entries[i])
			}
		}
	}
}

// checkRealTime checks that no decision was committed before another one that had returned before
// its call.
func (v *verifier) checkRealTime(c *chain) {
	last := c.entries[0]
	for _, e := range c.entries {
		if e.Outcome == admitted && e.Return < last.Call {
			v.fault("returned before the call of the other decision, but was committed after it:\n\t%v\n\t%v", e, last)
		}
		if e.Call > last.Call {
			last = e
		}
	}
}

// denial checks that a denial agrees with Peek, and that it was still correct after all decisions that
// were committed up to its time.
func (v *verifier) denial(e *entry) {
	denies := false
	for r := range e.Steps {
		own := e.Steps[r]
		peek, err := v.policies[r].Peek(own.Found, e.time(), e.Cost)
		if err != nil || peek != own.Result {
			v.fault("rule %s: %v\n\thad the result %+v\n\tPeek returns %+v, %v", ruleNames[r], e, own.Result, peek, err)
		}
		if peek.Allowed {
			continue
		}
		denies = true
		v.checkDenialState(r, e)
	}
	if !denies {
		v.fault("%v\n\twas denied, but no rule denies it", e)
	}
}

// checkDenialState checks that the state of a denial existed in time, and that the state at the
// time of the denial would have denied too.
func (v *verifier) checkDenialState(rule int, e *entry) {
	c, found := v.chains[v.stateKeyOf(rule, e.Key)], e.Steps[rule].Found
	n := c.after[string(found)]
	if n == 0 {
		return // an absent state; another check reports this
	}
	if maker := c.entries[n-1]; maker.Call > e.Return {
		v.fault("rule %s: %v\n\twas denied by a state of a later call:\n\t%v", ruleNames[rule], e, maker)
		return
	}
	later := sort.Search(len(c.entries)-n, func(i int) bool { return c.latest[n+i].After(e.time()) })
	state := c.entries[n+later-1].Steps[rule].Next
	if late, err := v.policies[rule].Peek(state, e.time(), e.Cost); err != nil || late.Allowed {
		v.fault("rule %s: %v\n\twas denied by an old state, but the current state allows it", ruleNames[rule], e)
	}
}
