package main

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// limit is that of all policies, and its period the one that is looked at.
var limit = algo.Per(30, time.Minute)

// specs are the policies that are compared.
var specs = []string{
	"gcra 30/m burst=30",
	"gcra 30/m burst=10",
	"gcra 30/m burst=1",
	"tokenbucket 30/m refill=continuous",
	"tokenbucket 30/m refill=interval",
	"tokenbucket 5/10s burst=30 refill=interval",
	"fixedwindow 30/m align=first",
	"fixedwindow 30/m align=clock",
	"movingwindow 30/m slots=1",
	"movingwindow 30/m slots=12",
	"movingwindow 30/m slots=12 trailing=whole",
}

// contender is a policy, or the exact log if it has none.
type contender struct {
	name   string
	policy algo.Policy
}

func contenders() ([]contender, error) {
	cs := []contender{{name: "exact log"}}
	for _, spec := range specs {
		p, err := compose.ParsePolicy(spec)
		if err != nil {
			return nil, err
		}
		cs = append(cs, contender{spec, p})
	}
	return cs, nil
}

// outcome is what one contender did with the requests of a pattern, of all their
// clients together.
type outcome struct {
	name     string
	requests int
	admitted int
	needless int   // denied, where the exact log had room
	worst    int64 // the most admitted to one client in any one period
	bound    int64 // the most that could ever be

	waits      []time.Duration // told at the denials, the shortest first
	exactWaits []time.Duration // what the exact log would have told there
}

// client is what a contender remembers of one client, and the truth beside it.
type client struct {
	state []byte
	log   exactLog
}

func (c contender) run(requests []request) (outcome, error) {
	o := outcome{name: c.name, requests: len(requests), bound: limit.Count}
	if c.policy != nil {
		o.bound = c.policy.Bound(limit.Period)
	}
	clients := make(map[string]*client)
	for _, r := range requests {
		if clients[r.key] == nil {
			clients[r.key] = &client{log: exactLog{limit: limit}}
		}
		if err := o.add(c, clients[r.key], r.at); err != nil {
			return o, err
		}
	}
	slices.Sort(o.waits)
	slices.Sort(o.exactWaits)
	return o, nil
}

// add lets the contender decide a request. The log beside it holds what this very
// contender admitted before.
func (o *outcome) add(c contender, from *client, now time.Time) error {
	exactWait := from.log.wait(now)
	allowed, wait := exactWait == 0, exactWait
	if c.policy != nil {
		next, r, err := c.policy.Step(nil, from.state, now, 1)
		if err != nil {
			return err
		}
		from.state, allowed, wait = next, r.Allowed, r.RetryAfter
	}
	if allowed {
		o.admitted++
		o.worst = max(o.worst, from.log.add(now))
		return nil
	}
	if exactWait == 0 {
		o.needless++
	}
	o.waits, o.exactWaits = append(o.waits, wait), append(o.exactWaits, exactWait)
	return nil
}

// section is a pattern and what became of it, the exact log first.
type section struct {
	pattern
	outcomes []outcome
}

func compare() (sections []section, err error) {
	cs, err := contenders()
	if err != nil {
		return nil, err
	}
	ps, err := patterns()
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		s := section{pattern: p}
		for _, c := range cs {
			o, err := c.run(p.requests)
			if err != nil {
				return nil, err
			}
			s.outcomes = append(s.outcomes, o)
		}
		sections = append(sections, s)
	}
	return sections, nil
}
