package postgres

import "fmt"

// split returns parts of the run that have no common keys.
func (r *run) split() (parts []*run) {
	group := make([]int, len(r.batch.Keys)) // a union-find forest: for each key another key of its part, or itself
	for i := range group {
		group[i] = i
	}
	root := func(k int) int {
		for group[k] != k {
			k = group[k]
		}
		return k
	}
	for _, i := range r.requests {
		uses := r.batch.Requests[i].Uses
		for _, u := range uses {
			group[root(u.Key)] = root(uses[0].Key)
		}
	}
	byRoot := map[int]*run{}
	part := func(k int) *run {
		p, ok := byRoot[root(k)]
		if !ok {
			p = &run{batch: r.batch, several: r.several, now: r.now}
			byRoot[root(k)], parts = p, append(parts, p)
		}
		return p
	}
	for _, k := range r.keys {
		p := part(k)
		p.keys = append(p.keys, k)
	}
	for _, i := range r.requests {
		p := part(r.batch.Requests[i].Uses[0].Key)
		p.requests = append(p.requests, i)
	}
	return parts
}

// failKeys sets the error of the keys of the run. It does nothing if err is nil.
func (r *run) failKeys(err error) {
	if err == nil {
		return
	}
	b := r.batch
	if b.KeyErr == nil {
		b.KeyErr = make([]error, len(b.Keys))
	}
	for _, k := range r.keys {
		b.KeyErr[k] = fmt.Errorf("key %.40q: %w", b.Keys[k], err)
	}
}
