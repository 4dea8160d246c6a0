package main

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
)

// limit is the limit of all policies. Admissions are counted over its period.
var limit = algo.Per(30, time.Minute)

// specs are the compared policies.
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

// contender is a policy, or the exact log if policy is nil.
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

// outcome has the counts of one contender for the requests of a pattern, for all clients together.
type outcome struct {
	name     string
	requests int
	admitted int
	needless int   // denied although the exact log had fewer admissions than the limit
	worst    int64 // the most that one client was admitted in any period
	bound    int64 // the most that a client can be admitted in any period

	waits      []time.Duration // of the denials, in ascending order
	exactWaits []time.Duration // the waits by the exact log for the same denials
}

// client has a contender's state of one client, and the exact log of its admissions.
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

// add lets the contender decide a request. The exact log has the earlier admissions of this
// contender.
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

// section is a pattern with the outcomes, the exact log first.
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
