package postgres

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage/driver"
)

// run is a batch, or the part of a batch that is not decided yet.
type run struct {
	batch       *driver.Batch
	keys        []int         // indexes of Batch.Keys, sorted by key
	requests    []int         // indexes of Batch.Requests that use these keys
	several     bool          // a request has several uses, or a key has several requests
	begun       bool          // the first statement was executed
	now         *int64        // nil for the server's clock
	lockTimeout time.Duration // 0 for the time until the deadline
}

func newRun(b *driver.Batch) *run {
	r := &run{batch: b, keys: make([]int, len(b.Keys)), requests: make([]int, len(b.Requests))}
	for i := range r.keys {
		r.keys[i] = i
	}
	slices.SortFunc(r.keys, func(i, j int) int { return strings.Compare(b.Keys[i], b.Keys[j]) })
	for i := range r.requests {
		r.requests[i] = i
	}
	r.several = !r.isSingles()
	if !b.Now.IsZero() {
		now := algo.Instant(b.Now)
		r.now = &now
	}
	return r
}

// isSingles reports whether each request has one use and no key has two requests.
func (r *run) isSingles() bool {
	used := make([]bool, len(r.batch.Keys))
	for _, i := range r.requests {
		request := &r.batch.Requests[i]
		if len(request.Uses) != 1 {
			return false
		}
		u := &request.Uses[0]
		if used[u.Key] || request.Times > 1 && u.Op != driver.Allow {
			return false
		}
		used[u.Key] = true
	}
	return true
}

// margin returns Batch.Margin in microseconds, rounded up.
func (r *run) margin() int64 {
	return int64((max(r.batch.Margin, 0) + time.Microsecond - 1) / time.Microsecond)
}

// args returns the arguments of the statement.
func (r *run) args(f *program.Functions, lockTimeout time.Duration) []any {
	keys := make([][]byte, len(r.keys))
	for i, k := range r.keys {
		keys[i] = []byte(r.batch.Keys[k])
	}
	args := []any{int32(lockTimeout.Milliseconds()), int64(r.batch.Version), r.now, r.margin(), keys}
	if r.several {
		return r.appendSeveral(args, f)
	}
	return r.appendSingles(args, f)
}

// appendSingles appends the arguments of singlesSQL. For each key these are the operation, the program,
// the indexes of the program's arguments, the cost, and Times. The last argument is the arguments of
// all programs.
func (r *run) appendSingles(args []any, f *program.Functions) []any {
	places := make(map[int]int, len(r.keys))
	for place, k := range r.keys {
		places[k] = place
	}
	u, programs := newUseColumns(len(r.keys)), newPrograms(f, r.batch)
	for i := range u.ops {
		u.ops[i] = int32(driver.Peek)
	}
	for _, i := range r.requests {
		request := &r.batch.Requests[i]
		u.set(places[request.Uses[0].Key], request, &request.Uses[0], programs)
	}
	return append(args, u.ops, u.programs, u.begins, u.ends, u.costs, u.times, programs.args)
}

// appendSeveral appends the arguments of severalSQL, which are those of the function in program/run.sql.
func (r *run) appendSeveral(args []any, f *program.Functions) []any {
	places := make(map[int]int, len(r.keys))
	for place, k := range r.keys {
		places[k] = place
	}
	n := 0
	for _, i := range r.requests {
		n += len(r.batch.Requests[i].Uses)
	}
	u, programs := newUseColumns(n), newPrograms(f, r.batch)
	requests, keys, shadows := make([]int32, 0, n), make([]int32, 0, n), make([]int32, n)
	for number, i := range r.requests {
		request := &r.batch.Requests[i]
		for j := range request.Uses {
			use := &request.Uses[j]
			if use.Shadow {
				shadows[len(keys)] = 1
			}
			u.set(len(keys), request, use, programs)
			requests, keys = append(requests, int32(number)), append(keys, int32(places[use.Key]+1))
		}
	}
	return append(args, requests, keys, u.ops, shadows, u.programs, u.begins, u.ends, u.costs, u.times, programs.args)
}

// useColumns are the columns of uses.
type useColumns struct {
	ops, programs, begins, ends []int32
	costs, times                []int64
}

func newUseColumns(n int) *useColumns {
	return &useColumns{ops: make([]int32, n), programs: make([]int32, n), begins: make([]int32, n), ends: make([]int32, n), costs: make([]int64, n), times: make([]int64, n)}
}

func (u *useColumns) set(i int, request *driver.Request, use *driver.Use, all *programs) {
	u.ops[i], u.costs[i], u.times[i] = int32(use.Op), use.Cost, int64(max(request.Times, 1))
	if use.Op <= driver.Charge {
		p := &all.calls[use.Program]
		u.programs[i], u.begins[i], u.ends[i] = p.number, p.begin, p.end
	}
}

// programs are the programs of a batch. The arguments of a program are args[begin:end] in the
// notation of PostgreSQL: indexes begin at 1, and end is included.
type programs struct {
	calls []call
	args  []int64
}

type call struct{ number, begin, end int32 }

func newPrograms(f *program.Functions, b *driver.Batch) *programs {
	all := &programs{args: []int64{}}
	for _, p := range b.Programs {
		number, args := f.Call(p)
		begin := int32(len(all.args) + 1)
		all.args = append(all.args, args...)
		all.calls = append(all.calls, call{number, begin, int32(len(all.args))})
	}
	return all
}

// runRow is a row of the reply: one key.
type runRow struct {
	place   int64  // of the key, from 1
	version *int64 // of the record before the batch; nil if there was none
	state   []byte
	at      int64
	count   *int64
	created bool    // another transaction created the key; it is not decided
	counts  []int64 // of all requests, in the first row
}

func readRunRow(row pgx.CollectableRow) (d runRow, err error) {
	if err = row.Scan(&d.place, &d.version, nil, &d.at, &d.count, &d.created, &d.counts); err != nil {
		return d, err
	}
	d.state, err = readBytes(row, 2)
	return d, err
}
