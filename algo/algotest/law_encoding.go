package algotest

import (
	"bytes"
	"errors"
	"time"

	"github.com/sluice-go/sluice/algo"
)

func stateEncoding(p *point) {
	if len(p.state) == 0 || !p.isNew(p.state, 0) {
		return
	}
	if p.subject.Recode != nil {
		again, err := p.subject.Recode(p.state)
		p.require(err == nil, "Recode cannot decode the state %x: %v", p.state, err)
		p.requireAlike(p.state, again, max(p.now, p.past.latest), sameResult, "after decoding and encoding the state")
	}
	for n := 1; n < len(p.state); n++ {
		p.requireRefused(p.state[:n], algo.ErrState, "a truncated state")
	}
	for _, more := range []string{"\x00", "\x01", "\xff", string(p.state)} {
		p.requireRefused(append(bytes.Clone(p.state), more...), algo.ErrState, "a state with trailing bytes")
	}
	p.require(len(p.state) >= 2, "the state %x must have a byte for the algorithm and a byte for the format version", p.state)
	p.requireRefused(append([]byte{^p.state[0]}, p.state[1:]...), algo.ErrState, "another algorithm's state")
	for _, version := range []byte{p.state[1] + 1, 0xff} {
		newer := append([]byte{p.state[0], version}, p.state[2:]...)
		p.requireRefused(newer, algo.ErrStateVersion, "a newer format")
		p.requireRefused(append(newer, 0), algo.ErrStateVersion, "a newer and longer format")
		p.requireRefused(newer[:2], algo.ErrStateVersion, "a newer and shorter format")
	}
}

// requireRefused requires that every operation returns the error and leaves dst as it was.
func (p *point) requireRefused(state []byte, want error, what string) {
	for _, op := range allOps {
		dst := []byte("dst")
		next, _, err := p.search.apply(p.policy, op, dst, state, p.now, 1)
		p.require(errors.Is(err, want), "%s, %x: %v must return the error %q, but returns %v", what, state, op, want, err)
		p.require(string(next) == "dst", "%s: %v appends to dst, but returns an error", what, op)
	}
}

func (s *search) otherBytes() *violation {
	if v := s.otherHeaders(); v != nil {
		return v
	}
	return s.damagedStates()
}

// otherHeaders tries states with every other first byte, and with every other second byte.
func (s *search) otherHeaders() *violation {
	for range 4 {
		limit := algo.Per(s.random.Int64N(20)+1, time.Duration(s.random.Int64N(100)+1))
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		n := s.next(root(), policy, event{limit: limit, op: step, at: epoch.UnixNano(), cost: 1})
		if len(n.state) < 2 {
			continue
		}
		if v := s.checkWith(onlyOwnHeader, n, limit, policy, n.latest); v != nil {
			return v
		}
	}
	return nil
}

// onlyOwnHeader allows versions from 1 to the current one: they may be older formats.
func onlyOwnHeader(p *point) {
	tag, version, rest := p.state[0], p.state[1], p.state[2:]
	for b := range 256 {
		if other := byte(b); other != tag {
			p.requireRefused(append([]byte{other, version}, rest...), algo.ErrState, "another algorithm's state")
		}
	}
	p.requireRefused(append([]byte{tag, 0}, rest...), algo.ErrState, "format 0")
	for newer := int(version) + 1; newer < 256; newer++ {
		p.requireRefused(append([]byte{tag, byte(newer)}, rest...), algo.ErrStateVersion, "a newer format")
	}
}

// damagedStates tries states with changed bytes, and random bytes.
func (s *search) damagedStates() *violation {
	for start := s.calls; s.calls-start < s.effort.random; s.calls++ {
		limit := s.anyLimit()
		policy := s.policy(limit)
		if policy == nil {
			continue
		}
		n, now := root(), s.upTo(algo.MaxInstant+1)-1
		for range 3 {
			n = s.next(n, policy, event{limit: limit, op: step, at: now, cost: s.cost(s.peek(n, policy, now))})
			now = s.nextTime(now, s.peek(n, policy, now), limit)
		}
		for range 20 {
			damaged := root().extend(event{limit: limit, at: now}, s.damage(n.state))
			damaged.before = nil
			if v := s.checkWith(refusedOrValid, damaged, limit, policy, now); v != nil {
				return v
			}
		}
	}
	return nil
}

func (s *search) damage(state []byte) []byte {
	b := bytes.Clone(state)
	if len(b) == 0 || s.chance(20) {
		b = make([]byte, s.random.IntN(40))
		for i := range b {
			b[i] = byte(s.random.Uint32())
		}
		if len(state) > 1 && s.chance(50) {
			b = append(state[:2:2], b...)
		}
		return b
	}
	for range s.random.IntN(4) + 1 {
		switch i := s.random.IntN(len(b)); s.random.IntN(3) {
		case 0:
			b[i] ^= 1 << s.random.IntN(8)
		case 1:
			b[i] = oneOf[byte](s, 0, 1, 0x7f, 0x80, 0xff)
		default:
			b[i] = byte(s.random.Uint32())
		}
	}
	return b
}

// refusedOrValid requires that every operation refuses the bytes, or that all accept them as a
// state.
func refusedOrValid(p *point) {
	_, err := p.policy.Peek(p.state, instant(p.now), 1)
	for _, op := range []op{step, refund, charge} {
		next, _, err2 := p.search.apply(p.policy, op, []byte("dst"), p.state, p.now, 1)
		p.require((err == nil) == (err2 == nil), "bytes %x: the error of Peek is %v, but of %v it is %v", p.state, err, op, err2)
		if err2 != nil {
			p.require(errors.Is(err2, algo.ErrState) || errors.Is(err2, algo.ErrStateVersion), "bytes %x: %v", p.state, err2)
			p.require(string(next) == "dst", "bytes %x: %v appends to dst, but returns an error", p.state, op)
			continue
		}
		next, r := p.call(op, p.state, p.now, 1)
		next, r2 := p.step(next, p.now, 1)
		p.require(r.Available+r.Refilled-r.Paid == r.Remaining && r2.Available+r2.Refilled-r2.Paid == r2.Remaining,
			"bytes %x: Available + Refilled - Paid is not Remaining: %+v, then %+v", p.state, r, r2)
		p.step(next, algo.MaxInstant, 1)
		p.step(next, 0, 1)
	}
}
