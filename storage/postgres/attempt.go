package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

// attempts is how often a batch is tried when a key was created at the same
// moment: the next time that is a conflict of its group alone.
const attempts = 3

// try tries all groups together, and answers them.
func (s *Store) try(ctx context.Context, w *write) {
	for range attempts {
		switch err := s.attempt(ctx, w); {
		case err == nil:
			w = w.again()
		case errors.Is(err, storage.ErrContended) && w.groups > 1:
			s.apart(ctx, w, hastyPatience)
			return
		case !errors.Is(err, errRaced):
			w.fail(err)
			return
		}
		switch w.groups { // those left were raced
		case 0:
			return
		case 1:
			s.lost(ctx, w)
			return
		}
	}
	s.apart(ctx, w, 0)
}

// apart tries each group for itself, because one was in the way of all.
func (s *Store) apart(ctx context.Context, w *write, patience time.Duration) {
	for _, g := range w.numbers() {
		alone := newWrite(w.all, w.outcomes, []int{g})
		alone.patience = patience
		s.try(ctx, alone)
	}
}

// lost answers a group whose key was created by another at the same moment: a
// conflict, with what is there by now.
func (s *Store) lost(ctx context.Context, w *write) {
	g := w.places[0].group
	keys := make([]string, len(w.all[g]))
	for i := range keys {
		keys[i] = w.all[g][i].Key
	}
	current, err := s.Load(ctx, keys...)
	if err != nil {
		err = storage.NotApplied(err)
	}
	w.outcomes[g] = storage.Outcome{Current: current, Err: err}
}

// attempt sends the statement; in a transaction of the caller behind a savepoint,
// if it may fail.
func (s *Store) attempt(ctx context.Context, w *write) error {
	db, release, err := s.connection(ctx)
	if err != nil {
		return err
	}
	defer release()
	tx, inside := db.(pgx.Tx)
	switch {
	case !inside:
		return s.alone(ctx, db, w)
	case w.undoes():
		return s.behindSavepoint(ctx, tx, w)
	}
	return s.exec(ctx, tx, w, 0)
}

func (s *Store) behindSavepoint(ctx context.Context, tx pgx.Tx, w *write) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return s.failed(tx, err)
	}
	if err := s.exec(ctx, savepoint, w, 0); err != nil {
		return errors.Join(err, savepoint.Rollback(ctx))
	}
	if err := savepoint.Commit(ctx); err != nil {
		return s.failed(tx, err)
	}
	return nil
}

// exec sends the statement and notes the answer. It waits for a lock as long as
// patience at most, if that is not 0; so do all that follow in the transaction, which
// therefore must not be the caller's.
func (s *Store) exec(ctx context.Context, db DB, w *write, patience time.Duration) error {
	losers, err := collectOn(ctx, s, db, readLoser, s.sql.swap, w.args(patience)...)
	if err != nil {
		return err
	}
	for _, p := range w.places {
		w.outcomes[p.group].Swapped = true
	}
	for _, l := range losers {
		w.settle(l)
	}
	return nil
}
