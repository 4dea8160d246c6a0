package simulate

import (
	"time"
)

// Level records the units left of one key over time. Add it to a Run before the run begins.
type Level struct {
	Client int32
	// From and To are the first and the last time of the record, in nanoseconds since the Unix
	// epoch. Between them are Samples times at equal distances.
	From, To int64
	Samples  int

	At   []int64 // the times, in ascending order
	Left []int64 // the units left, negative for a debt

	next  int // the next sample
	calls int
}

// Watch makes the run record the level.
func (r *Run) Watch(l *Level) { r.levels = append(r.levels, l) }

// upTo takes the samples before that time.
func (l *Level) upTo(r *Run, until int64) {
	for ; l.next < l.Samples; l.next++ {
		at := l.From + int64(float64(l.To-l.From)*float64(l.next)/float64(max(1, l.Samples-1)))
		if at >= until {
			return
		}
		l.peek(r, at)
	}
}

// note records the level just before and just after a call of the client. If there are many more
// calls than samples, it records only the samples.
func (l *Level) note(r *Run, c *Call) {
	if c.At < l.From || c.At > l.To || r.key(c.Client) != r.key(l.Client) || r.policy == nil {
		return
	}
	if l.calls++; l.calls > 4*l.Samples {
		return
	}
	l.add(c.At, c.Result.Remaining+c.Result.Paid)
	l.add(c.At, c.Result.Remaining)
}

func (l *Level) peek(r *Run, at int64) {
	if r.policy == nil {
		return
	}
	result, err := r.policy.Peek(r.key(l.Client).state, time.Unix(0, at), 1)
	if err == nil { // otherwise the next step returns it
		l.add(at, result.Remaining)
	}
}

func (l *Level) add(at, left int64) {
	l.At, l.Left = append(l.At, at), append(l.Left, left)
}
