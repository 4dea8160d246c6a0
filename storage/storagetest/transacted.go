package storagetest

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/storage/driver"
)

// inTransactions makes laws of transactions from laws of updates in place: the two promise
// the same of one update.
func inTransactions(laws []Law) (made []Law) {
	for _, law := range laws {
		made = append(made, Law{
			Name:     law.Name + ", in a transaction",
			Sentence: "In a transaction: " + law.Sentence,
			applies:  can[driver.Transactor],
			check: func(s *subject) {
				asked := *s
				asked.Store = &transacted{Transactor: s.Store.(driver.Transactor), advance: s.Advance}
				law.check(&asked)
			},
		})
	}
	return made
}

// transacted updates by transactions of one update. The time goes on when an update is made at
// a later time.
type transacted struct {
	driver.Transactor
	advance func(time.Duration)
	passed  time.Duration
}

func (t *transacted) Update(ctx context.Context, now time.Time, keys []string, d driver.Decider) error {
	if at := now.Sub(epoch); at > t.passed {
		t.advance(at - t.passed)
		t.passed = at
	}
	u := &driver.Update{Keys: keys, Decider: d}
	if err := t.Transact(ctx, nil, u); err != nil {
		return err
	}
	return u.Err
}
