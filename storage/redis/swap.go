package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed swap.lua
var swapLua string

var swapScript = newScript(swapLua)

// CompareAndSwap implements [storage.Store]. It sends one script, and sends it again in full if the
// server does not know it.
func (s *Store) CompareAndSwap(ctx context.Context, swaps ...storage.Swap) (current []storage.Record, swapped bool, err error) {
	keys, err := driver.BeginSwap(ctx, swaps)
	if err != nil || len(swaps) == 0 {
		return nil, err == nil, err
	}
	if _, err := s.placeOf(keys); err != nil {
		return nil, false, err
	}
	c := s.newCommand(swapScript, keys, 4*len(swaps))
	for i := range swaps {
		c.addSwap(&swaps[i])
	}
	s.send(ctx, false, c)
	if c.err != nil {
		return nil, false, s.commandFailure(&c.tracker, c.err)
	}
	return s.readSwap(c.Val(), len(swaps))
}

// addSwap adds four arguments: the old version, the new record, its TTL in ms, and its Until in ms
// since 1970. An argument is empty if the swap does not have it.
func (c *command) addSwap(s *storage.Swap) {
	for _, r := range []storage.Record{{Version: s.Old}, s.New} {
		if r.Version == 0 {
			c.add(c.text)
		} else {
			c.add(appendRecord(c.text, r))
		}
	}
	until := s.UntilUnix(time.Millisecond)
	if s.TTL == 0 || until == storage.FarUntil { // it never expires
		c.add(c.text)
		c.add(c.text)
		return
	}
	c.add(strconv.AppendInt(c.text, milliseconds(s.TTL), 10))
	if until == 0 {
		c.add(c.text)
	} else {
		c.add(strconv.AppendInt(c.text, until, 10))
	}
}

var errReplyForm = errors.New("the reply of the script has an unexpected form")

// readSwap reads the reply of swap.lua for n keys.
func (s *Store) readSwap(reply []string, n int) (current []storage.Record, swapped bool, err error) {
	kind, rest := "", reply
	if len(reply) > 0 {
		kind, rest = reply[0], reply[1:]
	}
	switch {
	case kind == "SWAPPED" && len(rest) == 0:
		return nil, true, nil
	case kind == "CONFLICT" && len(rest) == n:
		current, err = decodeAll(rest, nil)
		return current, false, err
	case kind == "NORECORD" && len(rest) == 1:
		return nil, false, storage.NotApplied(fmt.Errorf("%w: key %.40q", errNoRecord, rest[0]))
	case kind == "ERROR" && len(rest) == 1:
		return nil, false, s.failure(replyError(rest[0]))
	}
	return nil, false, s.failure(errReplyForm)
}
