package algotest

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// A reference is a simple algorithm that obeys every law: a bucket that holds twice the limit's
// count, and gets count units at the end of each period. A flaw makes it break one law.
type reference struct {
	limit algo.Limit
	flaw  *flaw
	rate  int64 // units in one interval, if not the limit's own
}

// A flaw makes an algorithm break the law of that name.
type flaw struct{ law, text string }

var noFlaw *flaw

type flawList []*flaw

func (l *flawList) add(law, text string) *flaw {
	f := &flaw{law, text}
	*l = append(*l, f)
	return f
}

type referenceState struct {
	used   int64 // units
	anchor int64 // the last refill before at
	at     int64 // the last event
	spare  int64 // used only by some flaws
}

func newReference(f *flaw) func(algo.Limit) (algo.Policy, error) {
	return func(l algo.Limit) (algo.Policy, error) {
		if l.Validate() != nil || l.Count > 1<<38 || l.Period > algo.MaxPeriod/4 {
			return nil, errors.New("reference: too large")
		}
		return reference{limit: l, flaw: f}, nil
	}
}

func (p reference) capacity() int64 {
	if p.flaw == payingSpeedsUp {
		return 4 * p.limit.Count
	}
	return 2 * p.limit.Count
}

func (p reference) Limit() algo.Limit {
	if p.flaw == reportsOtherLimit {
		return algo.Per(p.limit.Count, p.limit.Period+time.Microsecond)
	}
	return p.limit
}

func (p reference) String() string { return "reference " + p.limit.String() }

func (p reference) Bound(x time.Duration) int64 {
	n, period := p.limit.Count, p.limit.Period.Microseconds()
	if x < 1 {
		return 0
	}
	us := algo.Microseconds(x)
	refills := ceil(us, period)
	if p.flaw == boundEndsEarly && refills > 100 {
		return 0
	}
	if p.flaw == boundShortLater && refills >= 20 {
		refills--
	}
	if p.flaw == boundShortOnce && p.limit == algo.Per(1, 8*time.Microsecond) && us == 17 {
		return p.capacity() + n*refills - 2
	}
	switch p.flaw {
	case boundOneShort:
		return p.capacity() + n*refills - 1
	case boundWithoutBatches:
		if us < 1<<30 && n < 1<<30 {
			return p.capacity() + n*us/period
		}
		return math.MaxInt64
	case payingSpeedsUp, refillsTwice:
		return math.MaxInt64
	}
	if refills > (math.MaxInt64-p.capacity())/n {
		return math.MaxInt64
	}
	return p.capacity() + n*refills
}

// speed returns the units that come back in one interval.
func (p reference) speed(used int64) int64 {
	switch {
	case p.flaw == refillsTwice:
		return 2 * p.limit.Count
	case p.flaw == payingSpeedsUp && used > 2*p.limit.Count:
		return 3 * p.limit.Count
	case p.rate > 0:
		return p.rate
	}
	return p.limit.Count
}

// withOldRate returns p with the rate of the limit of the last payment.
func (p reference) withOldRate(state []byte) reference {
	if p.flaw != keepsOldRate && p.flaw != keepsSecondRate {
		return p
	}
	if s, err := p.decode(state); err == nil && s.spare <= 1<<38 {
		p.rate = s.spare
	}
	return p
}

// slow returns the use at which the speed changes.
func (p reference) slow(used int64) int64 {
	if p.flaw == payingSpeedsUp && used > 2*p.limit.Count {
		return 2 * p.limit.Count
	}
	return 0
}

// intervals returns how many intervals reduce the use to target.
func (p reference) intervals(used, target int64) int64 {
	if used <= target {
		return 0
	}
	speed, slow := p.speed(used), p.slow(used)
	k := (used - max(slow, target) + speed - 1) / speed
	return k + p.intervals(used-k*speed, target)
}

// drained returns the use after k intervals.
func (p reference) drained(used, k int64) int64 {
	if k <= 0 || used <= 0 {
		return max(used, 0)
	}
	speed, slow := p.speed(used), p.slow(used)
	j := min(k, (used-slow+speed-1)/speed)
	return p.drained(used-j*speed, k-j)
}

const size = 34

func (p reference) encode(dst []byte, s referenceState) []byte {
	if s.used == 0 {
		return dst
	}
	dst = append(dst, 'r', 1)
	for _, v := range []int64{s.used, s.anchor, s.at, s.spare} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// acceptsHeader reports whether the flaw accepts that header of another state.
func (p reference) acceptsHeader(tag, version byte) bool {
	switch p.flaw {
	case acceptsCapitalTag:
		return tag == 'R' && version == 1
	case acceptsVersion0:
		return tag == 'r' && version == 0
	case acceptsSomeVersions:
		return tag == 'r' && version > 1 && version%4 == 1
	}
	return false
}

func (p reference) decode(b []byte) (s referenceState, err error) {
	switch {
	case p.flaw == refusesEmptySlices && b != nil && len(b) == 0:
		return s, algo.ErrState
	case len(b) == 0:
		return s, nil
	case p.flaw == resetsTokenBuckets && b[0] == 't':
		return s, nil
	case len(b) > 1 && p.acceptsHeader(b[0], b[1]):
		return p.decode(append([]byte{'r', 1}, b[2:]...))
	case len(b) == 1 || b[0] != 'r':
		if p.flaw == resetsUnknownStates {
			return s, nil
		}
		return s, algo.ErrState
	case b[1] > 1 && p.flaw == confusesVersions:
		return s, algo.ErrState
	case b[1] > 1:
		return s, algo.ErrStateVersion
	case b[1] < 1 || len(b) < size || len(b) > size && p.flaw != acceptsTrailingBytes:
		return s, algo.ErrState
	}
	for i, field := range []*int64{&s.used, &s.anchor, &s.at, &s.spare} {
		*field = int64(binary.BigEndian.Uint64(b[2+8*i:]))
	}
	if s.used < 1 && p.flaw == panicsOnBadRange {
		panic("used out of range")
	}
	if s.used < 1 || s.used > algo.MaxLevel || s.anchor < 0 || s.at < 0 || s.at > algo.MaxInstant {
		return s, algo.ErrState
	}
	if s.anchor > s.at && p.flaw != movesTimeBack || s.spare < 0 && p.flaw == largeCostsDelay {
		return s, algo.ErrState
	}
	return s, nil
}

// at returns the time of a state.
func (p reference) at(state []byte) int64 {
	s, _ := p.decode(state)
	return s.at
}

// instant returns the time in us.
func (p reference) instant(now time.Time) int64 {
	switch {
	case p.flaw == usesUnixMicro:
		return now.UnixMicro()
	case p.flaw == roundsTimeUp:
		return algo.Instant(now.Add(time.Microsecond - 1))
	case p.flaw == panicsBefore1970 && now.Unix() < 0:
		panic("before the epoch")
	}
	return algo.Instant(now)
}

// advance brings the state forward to now and fills in the units available.
func (p reference) advance(b []byte, now int64, cost int64) (referenceState, algo.Result, error) {
	s, err := p.decode(b)
	if err != nil {
		return s, algo.Result{}, err
	}
	if p.flaw == storesUnitsLeft && s.used > 0 {
		s.used = min(max(0, p.capacity()-s.spare), algo.MaxLevel)
	}
	if p.flaw == resetsChangedLimit && s.spare != p.capacity() {
		s = referenceState{}
	}
	r := algo.Result{Limit: p.capacity(), Cost: cost}
	if p.flaw == reportsAPart {
		r.Part = 1
	}
	at := max(now, s.at)
	if p.flaw == largeCostsDelay && at > s.at {
		s.anchor, s.spare = s.delayed(), 0
	}
	used := p.drained(s.used, max(0, at-s.anchor)/p.limit.Period.Microseconds())
	if used == 0 {
		r.Fresh, r.Refilled = true, p.capacity()
		return referenceState{anchor: at, at: at}, r, nil
	}
	r.Available, r.Refilled, r.Skew = p.capacity()-s.used, s.used-used, micros(max(0, s.at-now))
	if p.flaw == hasNoAvailable {
		r.Available, r.Refilled = 0, r.Available+r.Refilled
	}
	intervals := max(0, at-s.anchor) / p.limit.Period.Microseconds()
	s.used, s.anchor, s.at = used, s.anchor+intervals*p.limit.Period.Microseconds(), at
	switch p.flaw {
	case movesTimeBack:
		s.at = now
	case hasNoSkew:
		r.Skew = 0
	}
	return s, r, nil
}

// complete takes the units paid and computes the waits.
func (p reference) complete(s *referenceState, r *algo.Result, now int64) {
	s.used += r.Paid
	r.Remaining = r.Available + r.Refilled - r.Paid
	if s.used <= 0 {
		return
	}
	anchor := s.anchor
	if p.flaw == largeCostsDelay {
		anchor = s.delayed()
	}
	r.NextRefill = p.until(anchor, 1, now)
	r.ResetAfter = p.until(anchor, p.intervals(s.used, 0), now)
	switch p.flaw {
	case refillsWhenFull:
		r.NextRefill = r.ResetAfter
	case resetsLate:
		r.ResetAfter += time.Microsecond
	case resetsEarly:
		r.ResetAfter -= time.Microsecond
	}
}

func (p reference) until(anchor, intervals, now int64) time.Duration {
	if intervals > (1<<53-anchor)/p.limit.Period.Microseconds() {
		return algo.Never
	}
	return micros(anchor + intervals*p.limit.Period.Microseconds() - now)
}

// delay delays the refills by 1us after a large cost.
func (p reference) delay(s *referenceState, cost, sign int64) {
	if p.flaw == largeCostsDelay && cost >= 3 {
		s.spare = max(0, s.spare+sign)
	}
}

func (s referenceState) delayed() int64 {
	if s.used < 3 {
		return s.anchor
	}
	return s.anchor + min(s.spare, 1)
}

func (p reference) Step(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	s, r, err := p.withOldRate(state).decide(state, now, &cost)
	if err != nil {
		return dst, algo.Result{}, err
	}
	if !r.Allowed {
		return p.deny(dst, state), r, nil
	}
	if p.flaw == writesBehindState && len(state) > 0 {
		_ = append(state, 1)
	}
	r.Paid = cost
	p.delay(&s, cost, 1)
	p.complete(&s, &r, p.instant(now))
	return p.write(dst, s), r, nil
}

func (p reference) write(dst []byte, s referenceState) []byte {
	switch p.flaw {
	case storesUnitsLeft:
		s.spare = p.capacity() - s.used
	case resetsChangedLimit:
		s.spare = p.capacity()
	case keepsSecondRate:
		if s.spare == 0 { // the first
			s.spare = -1
			break
		}
		s.spare = p.limit.Count
	case keepsOldRate:
		s.spare = p.limit.Count
	case dropsDst:
		return p.encode(dst[:0], s)
	}
	return p.encode(dst, s)
}

func (p reference) deny(dst, state []byte) []byte {
	switch {
	case p.flaw == returnsItsArgument && dst == nil:
		return state
	case p.flaw == storesDenials && len(state) == size:
		dst = append(dst, state...)
		dst[len(dst)-1]++
		return dst
	}
	return append(dst, state...)
}

func (p reference) Peek(state []byte, now time.Time, cost int64) (algo.Result, error) {
	_, r, err := p.withOldRate(state).decide(state, now, &cost)
	switch {
	case !r.Allowed:
	case p.flaw == peeksWithoutRefill:
		r.NextRefill = 0
	case p.flaw == peeksLateReset && r.ResetAfter > 0:
		r.ResetAfter += time.Microsecond
	}
	return r, err
}

// decide does not pay.
func (p reference) decide(state []byte, now time.Time, cost *int64) (referenceState, algo.Result, error) {
	if p.flaw == chargesDefaultCost && *cost == 0 {
		*cost = 1
	}
	if *cost < 1 {
		return referenceState{}, algo.Result{}, algo.ErrCost
	}
	t := p.instant(now)
	if p.flaw == resetsAfter2112 && now.After(instant(algo.MaxInstant)) {
		state = nil
	}
	s, r, err := p.advance(state, t, *cost)
	if err != nil {
		return s, r, err
	}
	r.Allowed = r.Available+r.Refilled >= *cost
	switch {
	case p.flaw == hugeCostsOverflow && *cost > 1<<62:
		r.Allowed = true
	case p.flaw == deniesInOtherZones && now.Location() != time.UTC:
		r.Allowed = false
	}
	free := s
	p.complete(&free, &r, t)
	if r.Allowed {
		return s, r, nil
	}
	r.RetryAfter = algo.Never
	if *cost <= p.capacity() {
		anchor := s.anchor
		if p.flaw == largeCostsDelay {
			anchor = s.delayed()
		}
		r.RetryAfter = p.until(anchor, p.intervals(s.used, p.capacity()-*cost), t)
		switch {
		case p.flaw == roundsRetry && r.RetryAfter < algo.Never:
			r.RetryAfter += r.RetryAfter % (2 * time.Microsecond)
		case p.flaw == retriesEarly && r.RetryAfter > time.Microsecond:
			r.RetryAfter -= time.Microsecond
		}
	}
	return s, r, nil
}

func (p reference) Refund(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.take(dst, state, now, cost, -1)
}

func (p reference) Charge(dst, state []byte, now time.Time, cost int64) ([]byte, algo.Result, error) {
	return p.take(dst, state, now, cost, 1)
}

func (p reference) take(dst, state []byte, now time.Time, cost, sign int64) ([]byte, algo.Result, error) {
	if p.flaw == refundsNegativeCosts && sign < 0 && cost < 0 {
		cost = 1
	}
	if cost < 1 {
		return dst, algo.Result{}, algo.ErrCost
	}
	s, r, err := p.withOldRate(state).advance(state, p.instant(now), cost)
	if err != nil {
		return dst, algo.Result{}, err
	}
	r.Allowed = p.flaw != adjustsAsDenied
	if p.flaw == adjustsWithoutSkew {
		r.Skew = 0
	}
	r.Paid = min(r.Cost, algo.MaxLevel-s.used)
	if sign < 0 {
		r.Paid = -min(r.Cost, s.used)
	}
	if p.flaw == losesLateRefunds && r.Skew > 0 && -r.Paid == s.used {
		r.Paid = 0
	}
	if p.flaw == refundsSpeedUp && sign < 0 && p.at(state) < s.at {
		s.anchor = min(s.anchor, max(0, s.at+1-p.limit.Period.Microseconds()))
	}
	p.delay(&s, r.Cost, sign)
	p.complete(&s, &r, p.instant(now))
	if r.Paid == 0 && p.flaw != storesFullRefunds {
		return append(dst, state...), r, nil
	}
	if p.flaw == refundsAboveFull && sign < 0 {
		r.Paid = -r.Cost
		r.Remaining = r.Available + r.Refilled - r.Paid
	}
	return p.write(dst, s), r, nil
}
