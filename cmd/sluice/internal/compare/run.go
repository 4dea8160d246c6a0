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

// outcome has the counts of one policy for the requests of a pattern, for all clients together.
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

// client has a policy's state of one client, and the exact log of the policy's admissions.
type client struct {
	state []byte
	log   exactLog
}

// run lets a policy decide requests; nil stands for the exact log.
func run(name string, policy algo.Policy, requests []request) (outcome, error) {
	o := outcome{name: name, requests: len(requests), bound: limit.Count}
	if policy != nil {
		o.bound = policy.Bound(limit.Period)
	}
	clients := make(map[string]*client)
	for _, r := range requests {
		if clients[r.key] == nil {
			clients[r.key] = new(client)
		}
		if err := o.add(policy, clients[r.key], r.at); err != nil {
			return o, err
		}
	}
	slices.Sort(o.waits)
	slices.Sort(o.exactWaits)
	return o, nil
}

func (o *outcome) add(policy algo.Policy, from *client, now time.Time) error {
	exactWait := from.log.wait(now)
	allowed, wait := exactWait == 0, exactWait
	if policy != nil {
		next, r, err := policy.Step(nil, from.state, now, 1)
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

// exactLog has the times at which one client was admitted in the last period of the limit. It
// decides exactly, but is too large for a limiter. Times must not step back.
type exactLog []time.Time

// add admits a request at now, and returns how many were admitted in the half-open
// period that ends just after now.
func (l *exactLog) add(now time.Time) int64 {
	l.forget(now)
	*l = append(*l, now)
	return int64(len(*l))
}

// wait returns the time until the limit admits one more request; 0 if it does now.
func (l *exactLog) wait(now time.Time) time.Duration {
	l.forget(now)
	excess := len(*l) - int(limit.Count)
	if excess < 0 {
		return 0
	}
	return (*l)[excess].Add(limit.Period).Sub(now)
}

func (l *exactLog) forget(now time.Time) {
	for len(*l) > 0 && now.Sub((*l)[0]) >= limit.Period {
		*l = (*l)[1:]
	}
}

// section is a pattern with the outcomes, the exact log first.
type section struct {
	pattern
	outcomes []outcome
}

func compare() (sections []section, err error) {
	names, policies := []string{"exact log"}, []algo.Policy{nil}
	for _, spec := range specs {
		p, err := compose.ParsePolicy(spec)
		if err != nil {
			return nil, err
		}
		names, policies = append(names, spec), append(policies, p)
	}
	ps, err := patterns()
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		s := section{pattern: p}
		for i, policy := range policies {
			o, err := run(names[i], policy, p.requests)
			if err != nil {
				return nil, err
			}
			s.outcomes = append(s.outcomes, o)
		}
		sections = append(sections, s)
	}
	return sections, nil
}
