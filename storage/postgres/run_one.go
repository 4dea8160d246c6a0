package postgres

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed run_one.sql
var oneFunctionSQL string

// oneSQL is the statement for a batch of one request with one use.
const oneSQL = `SELECT 1::bigint, old_version, old_state, at, count, false, NULL::bigint[]
FROM ONE($1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea, $6::int, $7::int, $8::bigint, $9::bigint, $10::bigint[])`

const oneParameters = `(lock_timeout_ms int, batch bigint, now bigint, margin bigint, name bytea, op int, program int, cost bigint, times bigint, args bigint[],
	OUT old_version bigint, OUT old_state bytea, OUT at bigint, OUT count bigint)`

// oneFunction returns the name of the function of oneSQL. The name has a hash of the table's name and
// of the function's text.
func (o Options) oneFunction(f *program.Functions) string {
	hash := sha256.Sum256([]byte(o.Table + "\x00" + f.Step + oneParameters + oneFunctionSQL))
	return fmt.Sprintf("sluice_one_%x", hash[:8])
}

// createOne returns the statement that creates the function of oneSQL.
func (o Options) createOne(f *program.Functions) string {
	body := strings.NewReplacer("TABLE", o.name(), "STEP", o.qualified(f.Step)).Replace(oneFunctionSQL)
	return fmt.Sprintf("CREATE OR REPLACE FUNCTION %s%s\nLANGUAGE plpgsql AS $sluice_one$\n%s$sluice_one$;\n", o.qualified(o.oneFunction(f)), oneParameters, body)
}

// isOne reports whether the run has one request with one use.
func (r *run) isOne() bool {
	return !r.several && len(r.keys) == 1 && len(r.requests) == 1
}

// oneArgs returns the arguments of oneSQL.
func (r *run) oneArgs(f *program.Functions, lockTimeout time.Duration) []any {
	request := &r.batch.Requests[r.requests[0]]
	u := &request.Uses[0]
	var number int32
	args := []int64{}
	if u.Op <= driver.Charge {
		number, args = f.Call(r.batch.Programs[u.Program])
	}
	return []any{int32(lockTimeout.Milliseconds()), int64(r.batch.Version), r.now, r.margin(), []byte(r.batch.Keys[u.Key]),
		int32(u.Op), number, u.Cost, int64(max(request.Times, 1)), append([]int64{}, args...)}
}
