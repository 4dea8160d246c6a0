package engine

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/engine/denials"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// errUncommitted is errInterrupted in a transaction: without a commit nothing is stored.
var errUncommitted = storage.NotApplied(errInterrupted)

// transact decides requests in one transaction.
func (q *queue) transact(ctx context.Context, requests []*Request) {
	e := q.engine
	all, updates := make([]driver.Update, len(requests)), make([]*driver.Update, len(requests))
	evaluated := make([]error, len(requests))
	var at time.Time // of all decisions
	for i, r := range requests {
		r.clearNext() // of an earlier attempt
		r.err = errUncommitted
		all[i] = driver.Update{Items: r.Items, Decide: func(now time.Time) bool {
			at, evaluated[i] = now, r.inTransaction(now)
			return evaluated[i] == nil
		}}
		updates[i] = &all[i]
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, updates...)
	received := time.Now()
	q.record(began, err, slices.ContainsFunc(requests, func(r *Request) bool { return changes(r.Items) }))
	for i, r := range requests {
		switch {
		case err == nil:
			if r.finish(evaluated[i]); r.err == nil {
				e.updateDenials(r, denials.Clock{At: at, Sent: began, Received: received})
			}
		case changes(r.Items):
			r.err = err
		default:
			r.err = storage.NotApplied(err)
		}
	}
}

// inTransaction decides a request in a transaction. The memory of the records is the store's. So inTransaction keeps copies of
// the states for the denial cache, which reads them after the transaction.
func (r *Request) inTransaction(now time.Time) error {
	_, err := r.evaluate(now, false)
	if _, denied := r.Evaluator.Denied(); denied && err == nil {
		for i := range r.Items {
			r.Items[i].Found = cloneRecord(r.Items[i].Found)
		}
	}
	return err
}
