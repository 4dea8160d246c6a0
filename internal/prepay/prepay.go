// Package prepay holds calls that a process has bought ahead.
package prepay

import "time"

// Share bounds a purchase: it buys at most 1/Share of the capacity of a limit, and at least one call.
const Share = 16

// Purse holds the calls that were bought for one key. They are charged already, so it never gives them back: what is not spent in
// time expires. The zero Purse is empty.
type Purse struct {
	left  int64
	until time.Time // when the calls expire
	size  int64     // of the last purchase
}

// Spend takes a call, if one is left that has not expired.
func (p *Purse) Spend(now time.Time) bool {
	if p.IsSpent(now) {
		return false
	}
	p.left--
	return true
}

// Next empties the purse and returns how many calls to buy at now, from 1 to most: twice as many as last time if all of those were
// spent before they expired, otherwise fewer.
func (p *Purse) Next(now time.Time, most int64) (calls int64) {
	switch {
	case p.left > 0:
		p.size -= p.left
	case now.Before(p.until):
		p.size *= 2
	default:
		p.size /= 2
	}
	p.left, p.size = 0, min(max(p.size, 1), most)
	return p.size
}

// Fill puts in calls that were bought by a request that was sent at an instant. They can be spent for as long as life, counted from
// then. If fewer than wanted were left, other processes compete for them, so the next purchase is of one call.
func (p *Purse) Fill(sent time.Time, life time.Duration, calls, wanted int64) {
	p.left, p.until = calls, sent.Add(life)
	if calls < wanted {
		p.size = 1
	}
}

// IsSpent reports whether nothing is left to spend at now.
func (p *Purse) IsSpent(now time.Time) bool { return p.left < 1 || !now.Before(p.until) }

// Empty drops all calls, and makes the next purchase one of a single call.
func (p *Purse) Empty() { *p = Purse{} }
