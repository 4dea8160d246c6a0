package postgres

import (
	"time"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// apply copies the reply into the batch. The run keeps the keys that another transaction created. They
// are decided again with the same time.
func (r *run) apply(rows []runRow) {
	b, keys, requests := r.batch, r.keys, r.requests
	r.begun = true
	b.At = b.Now
	if b.Now.IsZero() {
		b.At = time.Unix(0, rows[0].at)
	}
	r.now, r.keys, r.requests = &rows[0].at, nil, nil
	created, counts := make(map[int]bool), make(map[int]int64, len(rows))
	for i := range rows {
		row := &rows[i]
		k := keys[row.place-1]
		if created[k] = row.created; row.created {
			r.keys = append(r.keys, k)
			continue
		}
		if row.version != nil {
			b.Found[k] = storage.Record{Version: storage.Version(*row.version), State: row.state}
		}
		if row.count != nil {
			counts[k] = *row.count
		}
		for j, count := range row.counts {
			b.Requests[requests[j]].Applied = int(count)
		}
	}
	if r.several {
		return
	}
	for _, i := range requests {
		if u := &b.Requests[i].Uses[0]; created[u.Key] {
			r.requests = append(r.requests, i)
		} else {
			b.Requests[i].Applied = r.applied(u, counts[u.Key])
		}
	}
}

// applied returns Request.Applied of a request with one use.
func (r *run) applied(u *driver.Use, count int64) int {
	switch {
	case r.batch.Found[u.Key].Version == r.batch.Version:
		return driver.Stored
	case u.Op >= driver.Peek || u.Shadow && count == driver.Damaged:
		return 0
	}
	return int(count)
}
