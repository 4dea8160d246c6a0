package algotest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/algo"
)

// RoundTrip is law 3: decode(encode(s)) steps like s; what is not a state is
// refused with ErrState, a newer format with ErrStateVersion, never a panic and
// never a silent reset.
func RoundTrip(t testing.TB, s Subject) {
	t.Helper()
	law{
		number: 3, name: "RoundTrip",
		sentence: "decode(encode(s)) steps like s; what is not a state is refused with ErrState, a newer format " +
			"with ErrStateVersion, never a panic and never a silent reset",
		judge: roundTrip,
		verbs: []op{refund, charge}, skewed: true,
		also: func(h *hunt) *finding {
			if f := h.headers(); f != nil {
				return f
			}
			return h.garbage()
		},
	}.hold(t, s)
}

func roundTrip(p *point) {
	if len(p.state) == 0 || !p.hunt.once(p.state, 0) {
		return
	}
	if p.subject.Recode != nil {
		again, err := p.subject.Recode(p.state)
		p.require(err == nil, "the state %x cannot be decoded: %v", p.state, err)
		p.alike(p.state, again, max(p.now, p.past.latest), identical, "after decoding and encoding the state")
	}
	for n := 1; n < len(p.state); n++ {
		p.refuses(p.state[:n], algo.ErrState, "the state cut short")
	}
	for _, more := range []string{"\x00", "\x01", "\xff", string(p.state)} {
		p.refuses(append(bytes.Clone(p.state), more...), algo.ErrState, "the state with something after it")
	}
	p.require(len(p.state) >= 2, "the state %x has no byte of algorithm and byte of format version", p.state)
	p.refuses(append([]byte{^p.state[0]}, p.state[1:]...), algo.ErrState, "another algorithm's state")
	for _, version := range []byte{p.state[1] + 1, 0xff} {
		newer := append([]byte{p.state[0], version}, p.state[2:]...)
		p.refuses(newer, algo.ErrStateVersion, "a newer format")
		p.refuses(append(newer, 0), algo.ErrStateVersion, "a newer and longer format")
		p.refuses(newer[:2], algo.ErrStateVersion, "a newer and shorter format")
	}
}

// refuses requires that every verb refuses the bytes, dst as it was.
func (p *point) refuses(state []byte, want error, what string) {
	for _, op := range []op{step, peek, refund, charge} {
		dst := []byte("dst")
		next, _, err := p.hunt.counted(p.policy, op, dst, state, p.now, 1)
		p.require(errors.Is(err, want), "%s, %x: %v is to refuse it with %q, and says %v", what, state, op, want, err)
		p.require(string(next) == "dst", "%s: %v appends to dst along with its error", what, op)
	}
}

// headers offers the states of a few first steps under every other first byte, and
// every other second one.
func (h *hunt) headers() *finding {
	for range 4 {
		limit := algo.Per(h.random.Int64N(20)+1, time.Duration(h.random.Int64N(100)+1))
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		n := h.try(root(), policy, event{limit: limit, op: step, at: epoch.UnixNano(), cost: 1})
		if len(n.state) < 2 {
			continue
		}
		if f := h.examineBy(ownHeader, n, limit, policy, n.latest); f != nil {
			return f
		}
	}
	return nil
}

// ownHeader requires that a state is taken under no header but its own. Versions count
// from 1; those from there to the present one, if any, are formats of old.
func ownHeader(p *point) {
	tag, version, rest := p.state[0], p.state[1], p.state[2:]
	for b := range 256 {
		if other := byte(b); other != tag {
			p.refuses(append([]byte{other, version}, rest...), algo.ErrState, "another algorithm's state")
		}
	}
	p.refuses(append([]byte{tag, 0}, rest...), algo.ErrState, "format 0")
	for newer := int(version) + 1; newer < 256; newer++ {
		p.refuses(append([]byte{tag, byte(newer)}, rest...), algo.ErrStateVersion, "a newer format")
	}
}

// garbage offers states with bytes changed, and bytes at random.
func (h *hunt) garbage() *finding {
	for start := h.calls; h.calls-start < h.effort.random; h.calls++ {
		limit := h.anyLimit()
		policy := h.policy(limit)
		if policy == nil {
			continue
		}
		n, now := root(), h.upTo(algo.MaxInstant+1)-1
		for range 3 {
			n = h.try(n, policy, event{limit: limit, op: step, at: now, cost: h.cost(h.look(n, policy, now))})
			now = h.advance(now, h.look(n, policy, now), limit)
		}
		for range 20 {
			damaged := root().then(event{limit: limit, at: now}, h.damage(n.state))
			damaged.before = nil
			if f := h.examineBy(unshaken, damaged, limit, policy, now); f != nil {
				return f
			}
		}
	}
	return nil
}

func (h *hunt) damage(state []byte) []byte {
	b := bytes.Clone(state)
	if len(b) == 0 || h.chance(20) {
		b = make([]byte, h.random.IntN(40))
		for i := range b {
			b[i] = byte(h.random.Uint32())
		}
		if len(state) > 1 && h.chance(50) {
			b = append(state[:2:2], b...)
		}
		return b
	}
	for range h.random.IntN(4) + 1 {
		switch i := h.random.IntN(len(b)); h.random.IntN(3) {
		case 0:
			b[i] ^= 1 << h.random.IntN(8)
		case 1:
			b[i] = pick[byte](h, 0, 1, 0x7f, 0x80, 0xff)
		default:
			b[i] = byte(h.random.Uint32())
		}
	}
	return b
}

// unshaken judges bytes that may be a state and may not: they are refused, or
// else they step as a state does.
func unshaken(p *point) {
	_, err := p.policy.Peek(p.state, instant(p.now), 1)
	for _, op := range []op{step, refund, charge} {
		next, r, err2 := p.hunt.counted(p.policy, op, []byte("dst"), p.state, p.now, 1)
		p.require((err == nil) == (err2 == nil), "bytes %x: Peek says %v, %v says %v", p.state, err, op, err2)
		if err2 != nil {
			p.require(errors.Is(err2, algo.ErrState) || errors.Is(err2, algo.ErrStateVersion), "bytes %x: %v", p.state, err2)
			p.require(string(next) == "dst", "bytes %x: %v appends to dst along with its error", p.state, op)
			continue
		}
		next, r = p.call(op, p.state, p.now, 1)
		next, r2 := p.step(next, p.now, 1)
		p.require(r.Available+r.Refilled-r.Paid == r.Remaining && r2.Available+r2.Refilled-r2.Paid == r2.Remaining,
			"bytes %x: the accounts do not add up: %+v, then %+v", p.state, r, r2)
		p.step(next, algo.MaxInstant, 1)
		p.step(next, 0, 1)
	}
}
