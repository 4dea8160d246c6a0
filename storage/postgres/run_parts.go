package postgres

import "fmt"

// parts divides a run into parts that share no key.
func (r *run) parts() (parts []*run) {
	group := make([]int, len(r.batch.Keys)) // of each key, another key of its part, or itself
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

// failKeys notes an error, if it is one, as that of the keys that are left.
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
