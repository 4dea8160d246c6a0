package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
	"github.com/sluice-go/sluice/storage/storagetest"
)

// randomSingles compares Run with the steps in Go, on random batches that have at most one request
// for each key, with one use. The laws of storagetest have few of these batches.
type randomSingles struct {
	random   *rand.Rand
	policies map[*algo.Program]algo.Policy
	programs []*algo.Program
	stored   map[string]storage.Record
	last     storage.Version
	keys     []int // of the last batch
}

func newRandomSingles(t *testing.T) *randomSingles {
	s := &randomSingles{random: rand.New(rand.NewPCG(1, 2)), policies: map[*algo.Program]algo.Policy{}, stored: map[string]storage.Record{}}
	for _, spec := range []string{
		"gcra 5/h", "tokenbucket 100/h burst=7", "fixedwindow 6/h", "movingwindow 8/h slots=4", "all(gcra 9/h; fixedwindow 4/d)",
	} {
		policy, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		p, ok := policy.(algo.Portable).Program()
		require.True(t, ok)
		s.programs = append(s.programs, &p)
		s.policies[&p] = policy
	}
	return s
}

func (s *randomSingles) batch() *driver.Batch {
	b := &driver.Batch{Version: storage.NewVersion(), Programs: s.programs, Margin: time.Hour}
	keys := s.random.Perm(12)[:1+s.random.IntN(8)*s.random.IntN(2)]
	if s.last != 0 && s.random.IntN(8) == 0 {
		b.Version, keys = s.last, s.keys
	}
	if s.last, s.keys = b.Version, keys; s.random.IntN(2) == 0 {
		b.Now = time.Now().Round(0).Add(time.Duration(s.random.Int64N(int64(time.Hour)))) // late enough that no record has expired
	}
	for _, i := range keys {
		b.Keys = append(b.Keys, fmt.Sprint("key ", i))
		u := driver.Use{Key: len(b.Keys) - 1, Program: i % len(s.programs), Cost: 1 + s.random.Int64N(3), Shadow: s.random.IntN(5) == 0}
		if s.random.IntN(3) == 0 {
			u.Op = driver.Op(s.random.IntN(5))
		}
		if s.random.IntN(30) == 0 {
			u.Program = s.random.IntN(len(s.programs)) // it cannot read the state
		}
		r := driver.Request{Uses: []driver.Use{u}, Times: 1}
		if u.Op == driver.Allow {
			r.Times += s.random.IntN(3)
		}
		if s.random.IntN(8) > 0 {
			b.Requests = append(b.Requests, r)
		}
	}
	return b
}

// compare runs batches and returns the first difference.
func (s *randomSingles) compare(t *testing.T, store *postgres.Store, batches int) error {
	for range batches {
		b := s.batch()
		store.Run(t.Context(), b)
		if err := errors.Join(append(b.KeyErr, b.Err)...); err != nil {
			return err
		}
		want := *b
		want.Requests = slices.Clone(b.Requests)
		var found []storage.Record
		for _, key := range b.Keys {
			found = append(found, s.stored[key])
		}
		changes := storagetest.Decide(&want, found, b.At, func(p *algo.Program) algo.Policy { return s.policies[p] })
		if !b.At.Equal(want.At) || !slices.EqualFunc(found, b.Found, sameRecord) || !slices.Equal(appliedOf(&want), appliedOf(b)) {
			return fmt.Errorf("%+v\nfound   %v\nwant    %v\napplied %v\nwant    %v", b, b.Found, found, appliedOf(b), appliedOf(&want))
		}
		for i, change := range changes {
			switch change.Verb {
			case driver.Put:
				s.stored[b.Keys[i]] = storage.Record{Version: b.Version, State: change.State}
			case driver.Delete:
				delete(s.stored, b.Keys[i])
			}
		}
	}
	return nil
}

func sameRecord(a, b storage.Record) bool {
	return a.Version == b.Version && bytes.Equal(a.State, b.State)
}

func TestSingleRequestsAreDecidedAsInGo(t *testing.T) {
	server := shared.Postgres(t)
	for name, dsn := range map[string]string{
		"prepared": server.DSN(), "in text": server.DSN() + "&default_query_exec_mode=simple_protocol",
		"PgBouncer": shared.PgBouncer(t).DSN() + "&default_query_exec_mode=exec",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, newPool(t, dsn))
			require.NoError(t, newRandomSingles(t).compare(t, s, 400))
		})
	}
	t.Run("in a transaction", func(t *testing.T) {
		p := newPool(t, server.DSN())
		_, table := newStore(t, p)
		require.NoError(t, newRandomSingles(t).compare(t, storeIn(t, begin(t, p), table), 400))
	})
}
