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
func (q *queue) transact(ctx context.Context, attempts []*attempt) {
	e := q.engine
	all, updates := make([]driver.Update, len(attempts)), make([]*driver.Update, len(attempts))
	evaluated := make([]error, len(attempts))
	var at time.Time // of all decisions
	for i, a := range attempts {
		a.err = errUncommitted
		all[i] = driver.Update{Items: a.Items, Decide: func(now time.Time) bool {
			at, evaluated[i] = now, a.inTransaction(now)
			return evaluated[i] == nil
		}}
		updates[i] = &all[i]
	}
	began := time.Now()
	err := e.transactor.Transact(ctx, e.options.Clock, updates...)
	received := time.Now()
	q.record(began, err, slices.ContainsFunc(attempts, func(a *attempt) bool { return changes(a.Items) }))
	for i, a := range attempts {
		switch {
		case err == nil:
			if a.finish(evaluated[i]); a.err == nil {
				e.updateDenials(a.Request, denials.Clock{At: at, Sent: began, Received: received})
			}
		case changes(a.Items):
			a.err = err
		default:
			a.err = storage.NotApplied(err)
		}
	}
}

// inTransaction decides a request in a transaction. The memory of the records is the store's. So inTransaction keeps copies of
// the states for the denial cache, which reads them after the transaction.
func (a *attempt) inTransaction(now time.Time) error {
	_, err := a.evaluate(now, false)
	a.err = errUncommitted // until the commit
	if _, denied := a.Evaluator.Denied(); denied {
		for i := range a.Items {
			a.Items[i].Found = cloneRecord(a.Items[i].Found)
		}
	}
	return err
}
