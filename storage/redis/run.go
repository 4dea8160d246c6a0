package redis

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed run.lua
var runLua string

func (s *Store) Runs(p *algo.Program) bool {
	return program.Every(p, func(p *algo.Program) bool { return p.Name != "" && p.Lua != "" })
}

func (s *Store) Run(ctx context.Context, batches ...*driver.Batch) {
	var commands []*command
	for _, b := range batches {
		var c *command
		if c, b.Err = s.runCommand(ctx, b); b.Err == nil {
			commands = append(commands, c)
		}
	}
	s.send(ctx, true, commands...)
	for _, c := range commands {
		err := c.err
		if err == nil {
			err = s.readReply(c.batch, c.Val())
		}
		if err != nil {
			c.batch.Err = s.runFailure(ctx, c, err)
		}
	}
}

// runCommand returns the command that runs a batch.
func (s *Store) runCommand(ctx context.Context, b *driver.Batch) (*command, error) {
	if err := driver.BeginBatch(ctx, b); err != nil {
		return nil, err
	}
	if _, err := s.placeOf(b.Keys); err != nil {
		return nil, err
	}
	programs := b.Programs()
	script, err := s.scriptOf(programs)
	if err != nil {
		return nil, storage.NotApplied(fmt.Errorf("redis: %w", err))
	}
	c := s.newCommand(script, b.Keys, 1)
	c.batch = b
	c.args = append(c.args, batchArgument(b, programs))
	return c, nil
}

// batchArgument returns the argument of the script: the version, the margin in ms, the time of the batch in us, the programs and the
// uses.
func batchArgument(b *driver.Batch, programs []*algo.Program) []byte {
	const someBytes = 128 // enough for most batches of one caller
	dst := binary.BigEndian.AppendUint64(make([]byte, 0, someBytes), uint64(b.Version))
	dst = binary.BigEndian.AppendUint64(dst, uint64(milliseconds(max(b.Margin, 0))))
	dst = binary.BigEndian.AppendUint64(append(dst, flag(!b.Now.IsZero())), uint64(algo.Instant(b.Now)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(programs)))
	for _, p := range programs {
		dst = program.AppendArgs(dst, p)
	}
	for i := range b.Requests {
		r := &b.Requests[i]
		times := uint32(min(max(r.Times, 1), math.MaxInt32))
		for j := range r.Uses {
			u := &r.Uses[j]
			dst = binary.BigEndian.AppendUint32(dst, uint32(u.Key+1))
			dst = binary.BigEndian.AppendUint16(dst, uint16(driver.IndexOfProgram(programs, u.Program)+1))
			dst = append(dst, byte(u.Op), flag(u.Shadow), flag(j == len(r.Uses)-1))
			dst = binary.BigEndian.AppendUint32(dst, times)
			dst = binary.BigEndian.AppendUint64(dst, uint64(u.Cost))
		}
	}
	return dst
}

// flag returns 1 for true.
func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// runFailure returns the error of a batch. If another batch without the key that the server refused
// can succeed, the limiter shall send the requests in batches of their own.
func (s *Store) runFailure(ctx context.Context, c *command, err error) error {
	failure := s.commandFailure(ctx, c, err)
	usesNotAll := func(r driver.Request) bool { return len(r.Uses) < len(c.batch.Keys) }
	if (redis.HasErrorPrefix(err, "CROSSSLOT") || redis.HasErrorPrefix(err, "NOPERM")) && slices.ContainsFunc(c.batch.Requests, usesNotAll) {
		s.separateUntil.Store(time.Now().Add(separateTime).UnixNano())
		return fmt.Errorf("redis: %w: %w", storage.ErrContended, err)
	}
	return failure
}

// readReply reads the reply of run.lua: the value of each key, empty if the key is absent; the time in 8 bytes and the
// outcome of each request in 4; an error for each key that failed, and the TTLs of some keys.
func (s *Store) readReply(b *driver.Batch, reply []string) error {
	n := len(b.Keys)
	if len(reply) <= n || len(reply[n]) != 8+4*len(b.Requests) {
		return errReplyForm
	}
	head := []byte(reply[n])
	if b.At = b.Now; b.Now.IsZero() {
		b.At = time.UnixMicro(int64(binary.BigEndian.Uint64(head)))
	}
	for i := range b.Requests {
		b.Requests[i].Applied = int(int32(binary.BigEndian.Uint32(head[8+4*i:])))
	}
	b.KeyErr, b.Found = nil, make([]storage.Record, n)
	for _, text := range reply[n+1:] {
		if err := s.readKey(b, text); err != nil {
			return err
		}
	}
	return decodeAll(b.Found, reply[:n], b.KeyErr)
}

// decodeAll decodes the values of keys into records. A value is empty if the key is absent. The states of all
// records share one allocation. decodeAll skips the keys that failed.
func decodeAll(records []storage.Record, values []string, failed []error) error {
	size := 0
	for _, value := range values {
		size += len(value)
	}
	all := make([]byte, 0, size)
	for i, value := range values {
		if value == "" || failed != nil && failed[i] != nil {
			continue
		}
		start := len(all)
		all = append(all, value...)
		record, err := decode(all[start:len(all):len(all)])
		if err != nil {
			return err
		}
		records[i].Version, records[i].State = record.Version, record.State
	}
	return nil
}

// readKey reads the number of a key, and its TTL in ms or its error. If the write of the key failed, other keys of
// its requests may have been written.
func (s *Store) readKey(b *driver.Batch, text string) error {
	if len(text) < 4 {
		return errReplyForm
	}
	i := int(binary.BigEndian.Uint32([]byte(text))) - 1
	if i < 0 || i >= len(b.Keys) {
		return errReplyForm
	}
	if ttl, isTTL := strings.CutPrefix(text[4:], "TTL "); isTTL {
		ms, _ := strconv.ParseInt(ttl, 10, 64)
		b.Found[i].TTL = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		return nil
	}
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	switch reason, writeFailed := strings.CutPrefix(text[4:], "WRITE "); {
	case reason == "NORECORD":
		b.KeyErr[i] = storage.NotApplied(&storage.KeyError{Key: b.Keys[i], Err: errNoRecord})
	case writeFailed:
		b.KeyErr[i] = &storage.KeyError{Key: b.Keys[i], Err: fmt.Errorf("redis: %w: %w", storage.ErrPartialWrite, withoutArguments(replyError(reason)))}
	default:
		b.KeyErr[i] = storage.NotApplied(s.failure(replyError(reason)))
	}
	return nil
}

// replyError is an error of the server that a script returned as text.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// scriptOf returns the script for batches of these programs. It returns an error if two of them have the same name.
func (s *Store) scriptOf(programs []*algo.Program) (*script, error) {
	var leafBuffer [8]*algo.Program
	leaves, isStack := sortedLeaves(leafBuffer[:0], programs), slices.ContainsFunc(programs, program.IsStack)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.scripts {
		if known.isStack == isStack && slices.EqualFunc(known.leaves, leaves, isSame) {
			return known, nil
		}
	}
	text, err := program.Lua(runLua, programs...)
	if err != nil {
		return nil, err
	}
	made := newScript(text)
	made.leaves, made.isStack = slices.Clone(leaves), isStack
	s.scripts = append(s.scripts, made)
	return made, nil
}

func isSame(a, b *algo.Program) bool { return a.Name == b.Name && a.Lua == b.Lua }

// sortedLeaves appends the distinct programs that are not stacks, sorted by name.
func sortedLeaves(dst, programs []*algo.Program) []*algo.Program {
	dst = program.AppendLeaves(dst, programs...)
	slices.SortFunc(dst, func(a, b *algo.Program) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(dst, isSame)
}
