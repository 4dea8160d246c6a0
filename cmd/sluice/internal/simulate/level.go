package simulate

import "time"

// Level records the units left of one key over time. Add it to a Run before the run begins.
type Level struct {
	Client int32
	// From and To are the first and the last time of the record, in microseconds since the Unix
	// epoch. Between them are Samples times at equal distances.
	From, To int64
	Samples  int

	At   []int64 // the times, in ascending order
	Left []int64 // the units left, negative for a debt

	next      int   // the next sample
	called    bool  // since the last sample
	low, high point // the lowest and the highest since then
}

type point struct{ at, left int64 }

// Watch makes the run record the level.
func (r *Run) Watch(l *Level) { r.level = l }

// upTo takes the samples before that time.
func (l *Level) upTo(r *Run, until int64) {
	for ; l.next < l.Samples; l.next++ {
		at := l.From + int64(float64(l.To-l.From)*float64(l.next)/float64(max(1, l.Samples-1)))
		if at >= until {
			return
		}
		l.flush()
		if result, err := r.policy.Peek(r.key(l.Client).state, time.UnixMicro(at), 1); err == nil { // otherwise the next step returns it
			l.add(at, result.Remaining)
		}
	}
}

// note notes the level just before and just after a call of the client. It keeps only the
// lowest and the highest level between two samples.
func (l *Level) note(r *Run, c *Call) {
	if c.Prepaid || c.At < l.From || c.At > l.To || r.key(c.Client) != r.key(l.Client) {
		return
	}
	before := c.Result.Remaining + c.Result.Paid + c.Bought*c.Cost
	for _, p := range [...]point{{c.At, before}, {c.At, c.Result.Remaining}} {
		if !l.called || p.left >= l.high.left {
			l.high = p
		}
		if !l.called || p.left < l.low.left {
			l.low = p
		}
		l.called = true
	}
}

// flush records the lowest and the highest level since the last sample.
func (l *Level) flush() {
	if !l.called {
		return
	}
	first, second := l.high, l.low
	if l.low.at < l.high.at {
		first, second = l.low, l.high
	}
	l.add(first.at, first.left)
	l.add(second.at, second.left)
	l.called = false
}

func (l *Level) add(at, left int64) {
	l.At, l.Left = append(l.At, at), append(l.Left, left)
}
