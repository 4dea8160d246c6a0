package storagetest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/storage"
)

var bytesLaws = []Law{
	law("states are opaque",
		"A state may be any bytes. Load returns it unchanged.", func(s *subject) {
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			for i, state := range []string{
				"\x00", "\x00\x00", "a\x00", "\x00a", "a\x00b", "\xff", "\xff\xfe\x00", "\xc3\x28", "\n", "\r\n", " ", "0", "007",
				"1e3", "-1", "nil", "NULL", "'", `\`, `\x00`, `\000`, "{}", "%s", string(every), strings.Repeat("\x00", 300),
				strings.Repeat(string(every), 256),
			} {
				k := key(fmt.Sprint("state ", i))
				s.holds(k, s.put(k, state, 0), state)
			}
		}),
	law("an empty state is not absent",
		"A record with an empty state exists: Load returns its version, and it cannot be created again.", func(s *subject) {
			for i, state := range [][]byte{nil, {}} {
				k, version := key(fmt.Sprint("empty ", i)), storage.Version(0)
				for range 2 { // create, then replace
					empty := storage.Swap{Key: k, Old: version, New: storage.Record{Version: storage.NewVersion(), State: state}}
					s.swap(empty)
					s.holds(k, empty.New.Version, "")
					s.conflicts("creates a record that exists with an empty state", writing(k, 0, "x", 0))
					full := writing(k, empty.New.Version, "full", 0)
					s.swap(full)
					version = full.New.Version
				}
			}
		}),
	law("keys are opaque",
		"A key may be any bytes, up to MaxKey of them. Different keys have different records.", func(s *subject) {
			longest := strings.Repeat("x", storage.MaxKey-1)
			keys := []string{
				"", "\x00", "\x00\x00", "a", "A", "a\x00", "\x00a", "a\x00b", "a\x00c", "\xff", "\xff\xff", "\xc3\x28", "\xef\xbf\xbd", "é", "e\u0301",
				"a ", " a", "a\n", "a\r\n", "{a}", "{b}", "{", "}{", "{}", "a{b}c", "a{b}d", "a:b", "a:b:c", "a/b", "a'b", `a"b`, `a\b`, `a\\b`, `\x61`, `\141`,
				"%", "_", "*", "?", "[a]", "0", "00", "1", "1.0", "1e0", "NULL", "nil", "k", "h", longest, longest + "x", longest + "y", longest + "\x00",
			}
			versions := make([]storage.Version, len(keys))
			for i, k := range keys {
				versions[i] = s.put(k, fmt.Sprint("state of key ", i), 0)
			}
			for i, k := range keys {
				s.holds(k, versions[i], fmt.Sprint("state of key ", i))
			}
		}),
	law("versions are opaque",
		"A version has 64 significant bits.", func(s *subject) {
			for i, version := range []storage.Version{
				1, 255, math.MaxInt32, math.MaxUint32 + 1, 1 << 53, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64,
			} {
				k := key(fmt.Sprint("version ", i))
				s.swap(storage.Swap{Key: k, New: storage.Record{Version: version, State: []byte("state")}})
				s.holds(k, version, "state")
				for _, neighbour := range []storage.Version{version ^ 1, version - 1, version + 1, version ^ 1<<63, version ^ 1<<32} {
					s.conflicts(fmt.Sprintf("is from version %d to a record of version %d", neighbour, version), writing(k, neighbour, "x", 0))
				}
				s.swap(writing(k, version, "next", 0))
			}
		}),
	law("buffers are not shared",
		"A store does not keep the memory of the states that it gets, does not return memory that it keeps, and no two returned records "+
			"share memory.", func(s *subject) {
			for _, long := range []int{5, 300, 70_000} {
				s.copiesBuffers(key(fmt.Sprint("state of ", long)), strings.Repeat("s", long))
			}
			s.recordsShareNoMemory()
		}),
}

func (s *subject) copiesBuffers(k, text string) {
	state := []byte(text)
	create := writing(k, 0, "", 0)
	create.New.State = state
	s.swap(create)
	if string(state) != text {
		s.fail("the store changed its argument to %.40q", state)
	}
	spoil(state)
	s.holds(k, create.New.Version, text)

	spoil(s.get(k).State)
	s.holds(k, create.New.Version, text)

	current, _ := s.try(writing(k, storage.NewVersion(), "x", 0))
	for _, r := range current {
		spoil(r.State)
	}
	s.holds(k, create.New.Version, text)
}

// recordsShareNoMemory requires that a caller can append to each returned state.
func (s *subject) recordsShareNoMemory() {
	a, b := key("a"), key("b")
	s.put(a, "state a", 0)
	s.put(b, "state b", 0)
	loaded := s.load(a, b, a)
	current, _ := s.try(writing(a, storage.NewVersion(), "x", 0), writing(b, storage.NewVersion(), "x", 0))
	for _, records := range [][]storage.Record{loaded, current} {
		for i, r := range records {
			others := slices.Delete(slices.Clone(records), i, i+1)
			before := fmt.Sprintf("%q", others)
			spoil(append(r.State, r.State...)) // overwrites the memory behind the state, unless append copies it
			spoil(r.State)
			if after := fmt.Sprintf("%q", others); after != before {
				s.fail("a write to record %d of %d changed the other records from %s to %s", i, len(records), before, after)
			}
		}
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}
