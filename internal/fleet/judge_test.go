package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/algo/algotest"
)

// A lane is the states of one stored key: those of a rule and what it limits.
type lane struct {
	rule int
	key  string
}

func (j *judge) laneOf(rule int, key string) lane { return lane{rule, j.traffic.keyOf(rule, key)} }

// A judge holds the journals of a fleet against the pure step.
type judge struct {
	traffic  *traffic
	policies [rules]algo.Policy
	entries  []*entry
	stored   map[lane]string // the states in the store at the end
	forgets  int             // how often the store may have forgotten everything

	made   map[lane]map[string][]*entry // who left a state, or may have
	chains map[lane]*chain
	guilt  []string
}

// A chain is what was committed in one lane, in the order of commits.
type chain struct {
	lane
	entries []*entry
	lives   []int          // where each life begins: after the store forgot all
	place   map[*entry]int // in entries
	after   map[string]int // how many entries led to a state
	latest  []time.Time    // of each entry, the latest time up to it, in its life
	account []algotest.Log // of each life
}

const mostFaults = 10

func (j *judge) fault(format string, args ...any) {
	if len(j.guilt) < mostFaults {
		j.guilt = append(j.guilt, fmt.Sprintf(format, args...))
	}
}

func (e *entry) String() string {
	return fmt.Sprintf("member %d caller %d call %d (key %q, cost %d, at %v)",
		e.Member, e.Caller, e.Number, e.Key, e.Cost, e.time().UTC().Format(time.DateTime))
}

func (e *entry) time() time.Time { return time.Unix(0, e.Now) }

// verdict lists the faults, none if the fleet was right.
func (j *judge) verdict() []string {
	committed := j.committed()
	j.link(committed)
	if len(j.guilt) > 0 {
		return j.guilt
	}
	for _, c := range j.chains {
		j.replay(c)
		j.bounds(c)
		j.naive(c)
	}
	j.oneOrder()
	for _, e := range j.entries {
		if e.Fate == denied {
			j.denial(e)
		}
	}
	return j.guilt
}

// committed finds the decisions that were committed: those whose callers know,
// and those of uncertain outcome without which a state that somebody saw would
// be nobody's.
func (j *judge) committed() []*entry {
	j.made = map[lane]map[string][]*entry{}
	var known []*entry
	for _, e := range j.entries {
		if e.Fate == admitted {
			known = append(known, e)
			j.claim(e)
		}
	}
	guesses, wanted := j.guesses(), j.wanted()
	for {
		missing := j.missing(wanted)
		if len(missing) == 0 {
			return known
		}
		e := guesses.best(wanted, missing)
		if e == nil {
			for _, s := range missing {
				j.fault("rule %s, key %q: nobody left the state %x, yet it was seen", ruleNames[s.rule], s.key, s.state)
			}
			return known
		}
		guesses.spent[e.decision()] = true
		known = append(known, e)
		j.claim(e)
		for r := range e.Steps {
			wanted[seen{j.laneOf(r, e.Key), string(e.Steps[r].Found)}] = true
		}
	}
}

// seen is a state that somebody saw in a lane.
type seen struct {
	lane
	state string
}

func (j *judge) claim(e *entry) {
	for r := range e.Steps {
		l := j.laneOf(r, e.Key)
		if j.made[l] == nil {
			j.made[l] = map[string][]*entry{}
		}
		state := string(e.Steps[r].Next)
		j.made[l][state] = append(j.made[l][state], e)
	}
}

// guesses are entries of decisions that may have been committed or not, by the
// states they would have left. A decision counts once at most.
type guesses struct {
	judge   *judge
	entries map[seen][]*entry
	spent   map[decision]bool
}

func (j *judge) guesses() guesses {
	g := guesses{j, map[seen][]*entry{}, map[decision]bool{}}
	certain := map[decision]bool{}
	for _, e := range j.entries {
		certain[e.decision()] = certain[e.decision()] || e.Fate == admitted || e.Fate == denied || e.Fate == refused
	}
	for _, e := range j.entries {
		if !certain[e.decision()] && e.allowed() {
			for r := range e.Steps {
				s := seen{j.laneOf(r, e.Key), string(e.Steps[r].Next)}
				g.entries[s] = append(g.entries[s], e)
			}
		}
	}
	return g
}

// best is the entry that explains a missing state, better one that both rules
// miss. Those that all their states make equal cannot be told apart, and need
// not be.
func (g *guesses) best(wanted map[seen]bool, missing []seen) (best *entry) {
	most := 0
	for _, s := range missing {
		for _, e := range g.entries[s] {
			n := 0
			for r := range e.Steps {
				if wanted[seen{g.judge.laneOf(r, e.Key), string(e.Steps[r].Next)}] {
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

// wanted are the states that were seen: by decisions that rested on them, and in
// the store at the end.
func (j *judge) wanted() map[seen]bool {
	wanted := map[seen]bool{}
	for _, e := range j.entries {
		if e.Fate == admitted || e.Fate == denied {
			for r := range e.Steps {
				wanted[seen{j.laneOf(r, e.Key), string(e.Steps[r].Found)}] = true
			}
		}
	}
	for l, state := range j.stored {
		wanted[seen{l, state}] = true
	}
	return wanted
}

func (j *judge) missing(wanted map[seen]bool) (found []seen) {
	for s := range wanted {
		if s.state != "" && len(j.made[s.lane][s.state]) == 0 {
			found = append(found, s)
		}
	}
	return found
}

// link puts what was committed in order: the state that one left is the one that
// the next found.
func (j *judge) link(committed []*entry) {
	next := map[seen]*entry{}
	starts, total := map[lane][]*entry{}, map[lane]int{}
	for _, e := range committed {
		for r := range e.Steps {
			s := seen{j.laneOf(r, e.Key), string(e.Steps[r].Found)}
			total[s.lane]++
			switch other := next[s]; {
			case s.state == "":
				starts[s.lane] = append(starts[s.lane], e)
			case other != nil:
				j.fault("rule %s, key %q: two decisions spent the same state:\n\t%v\n\t%v", ruleNames[r], s.key, other, e)
			default:
				next[s] = e
			}
		}
	}
	j.chains = map[lane]*chain{}
	for l, n := range total {
		j.chains[l] = j.follow(l, starts[l], next)
		if got := len(j.chains[l].entries); got != n {
			j.fault("rule %s, key %q: %d decisions of %d are in one order", ruleNames[l.rule], l.key, got, n)
		}
	}
	j.ends()
}

// follow strings together what follows from the starts of a lane.
func (j *judge) follow(l lane, starts []*entry, next map[seen]*entry) *chain {
	c := &chain{lane: l, place: map[*entry]int{}, after: map[string]int{}}
	slices.SortFunc(starts, func(a, b *entry) int { return cmp.Compare(a.Now, b.Now) })
	for _, e := range starts {
		j.begin(c, e)
		for e != nil {
			if _, again := c.place[e]; again {
				break // in a circle
			}
			c.add(e)
			e = next[seen{l, string(e.Steps[l.rule].Next)}]
		}
	}
	return c
}

// ends checks that the store holds what the last decisions left.
func (j *judge) ends() {
	for l, state := range j.stored {
		left := ""
		if c := j.chains[l]; c != nil && len(c.entries) > 0 {
			left = string(c.entries[len(c.entries)-1].Steps[l.rule].Next)
		}
		if state != left {
			j.fault("rule %s, key %q: the store holds %x, which is not what the last decision left: %x", ruleNames[l.rule], l.key, state, left)
		}
	}
}

// begin is the start of a chain from nothing. After the first one the state had
// lapsed by then, or the store forgot it.
func (j *judge) begin(c *chain, e *entry) {
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1].Steps[c.rule].Next
		if r, err := j.policies[c.rule].Peek(last, e.time(), e.Cost); err == nil && r.Fresh {
			return
		}
	}
	c.lives = append(c.lives, len(c.entries))
	c.account = append(c.account, algotest.Log{})
	if len(c.lives) > 1+j.forgets {
		j.fault("rule %s, key %q: what was used has been forgotten before\n\t%v", ruleNames[c.rule], c.key, e)
	}
}

func (c *chain) add(e *entry) {
	now := e.time()
	if i := len(c.entries); i > c.lives[len(c.lives)-1] && c.latest[i-1].After(now) {
		now = c.latest[i-1]
	}
	c.place[e] = len(c.entries)
	c.entries = append(c.entries, e)
	c.latest = append(c.latest, now)
	c.after[string(e.Steps[c.rule].Next)] = len(c.entries)
	c.account[len(c.lives)-1].Add(now, e.Cost)
}

// life is where the life of a place begins and ends.
func (c *chain) life(place int) (from, to int) {
	i := sort.SearchInts(c.lives, place+1) - 1
	if i+1 < len(c.lives) {
		return c.lives[i], c.lives[i+1]
	}
	return c.lives[i], len(c.entries)
}

// replay steps from nothing through the chain, and must come to the same
// results and states.
func (j *judge) replay(c *chain) {
	var state []byte
	for _, e := range c.entries {
		own := e.Steps[c.rule]
		if len(own.Found) == 0 {
			state = nil
		}
		next, r, err := j.policies[c.rule].Step(nil, state, e.time(), e.Cost)
		if err != nil || !r.Allowed || string(next) != string(own.Next) || r != own.Result {
			j.fault("rule %s: %v\n\twas answered %+v\n\tthe step says %+v, %v", ruleNames[c.rule], e, own.Result, r, err)
		}
		state = next
	}
}

// bounds checks every interval that begins and ends with a decision. Where the
// clock of a decision was behind what was committed before, its time is that: by
// law no more is admitted than if time had stood still.
func (j *judge) bounds(c *chain) {
	for i := range c.entries {
		from, to := c.life(i)
		if i > from && c.latest[i].Equal(c.latest[i-1]) {
			continue // an interval that begins here has begun before
		}
		sum, allowed := int64(0), int64(0)
		for k := i; k < to; k++ {
			sum += c.entries[k].Cost
			if sum <= allowed || k+1 < to && c.latest[k].Equal(c.latest[k+1]) {
				continue // a longer interval is allowed no less
			}
			interval := c.latest[k].Sub(c.latest[i]) + 1
			if allowed = j.policies[c.rule].Bound(interval); sum > allowed {
				j.fault("rule %s, key %q: %d units in %v from %v on, the bound is %d", ruleNames[c.rule], c.key, sum, interval, c.latest[i].UTC(), allowed)
				return
			}
		}
	}
}

// naive holds the account of every decision against what there was to spend, at
// the end of each life.
func (j *judge) naive(c *chain) {
	for i, start := range c.lives {
		_, end := c.life(start)
		last := c.entries[end-1]
		r, err := j.policies[c.rule].Peek(last.Steps[c.rule].Next, c.latest[end-1], 1)
		if want := j.traffic.oracles[c.rule](c.account[i], c.latest[end-1]); err != nil || r.Remaining != want {
			j.fault("rule %s, key %q: %d units remain after\n\t%v\n\tby the account of all decisions %d", ruleNames[c.rule], c.key, r.Remaining, last, want)
		}
	}
}

// oneOrder checks that the decisions of a key have the same order under both rules, and
// that this order is possible by the times of calls and returns.
func (j *judge) oneOrder() {
	for l, c := range j.chains {
		if l.rule == 1 {
			j.inTime(c)
			continue
		}
		second := j.chains[j.laneOf(1, l.key)]
		for i := 1; i < len(c.entries); i++ {
			if second.place[c.entries[i-1]] >= second.place[c.entries[i]] {
				j.fault("key %q: the rules disagree on the order of\n\t%v\n\t%v", c.key, c.entries[i-1], c.entries[i])
			}
		}
	}
}

// inTime checks that no decision of a chain comes before one that had returned when it was
// asked for.
func (j *judge) inTime(c *chain) {
	last := c.entries[0]
	for _, e := range c.entries {
		if e.Fate == admitted && e.Return < last.Call {
			j.fault("returned before the other was asked for, but was committed after it:\n\t%v\n\t%v", e, last)
		}
		if e.Call > last.Call {
			last = e
		}
	}
}

// denial checks that a denial says what the step says, and that it still held
// after all that was committed by times up to its own.
func (j *judge) denial(e *entry) {
	denies := false
	for r := range e.Steps {
		own := e.Steps[r]
		look, err := j.policies[r].Peek(own.Found, e.time(), e.Cost)
		if err != nil || look != own.Result {
			j.fault("rule %s: %v\n\twas answered %+v\n\ta look says %+v, %v", ruleNames[r], e, own.Result, look, err)
		}
		if look.Allowed {
			continue
		}
		denies = true
		j.lasting(r, e)
	}
	if !denies {
		j.fault("%v\n\twas denied by no rule", e)
	}
}

// lasting checks that the state which denied was there in time, and that those
// which others had put in its place by then would have denied too.
func (j *judge) lasting(rule int, e *entry) {
	c, found := j.chains[j.laneOf(rule, e.Key)], e.Steps[rule].Found
	n := c.after[string(found)]
	if n == 0 {
		return // denied by nothing at all, which a look allows: the fault is told
	}
	if maker := c.entries[n-1]; maker.Call > e.Return {
		j.fault("rule %s: %v\n\twas denied by what was asked for later:\n\t%v", ruleNames[rule], e, maker)
		return
	}
	_, end := c.life(n - 1)
	later := sort.Search(end-n, func(i int) bool { return c.latest[n+i].After(e.time()) })
	state := c.entries[n+later-1].Steps[rule].Next
	if late, err := j.policies[rule].Peek(state, e.time(), e.Cost); err != nil || late.Allowed {
		j.fault("rule %s: %v\n\twas denied on a state that was left behind, and there was room", ruleNames[rule], e)
	}
}
