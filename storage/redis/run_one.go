package redis

import (
	_ "embed"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/program"
	"github.com/sluice-go/sluice/storage/driver"
)

//go:embed run_one.lua
var runOneLua string

// isOne reports whether run_one.lua can decide a batch: it has one request with one use, whose
// program is not a stack.
func isOne(b *driver.Batch) bool {
	if len(b.Keys) != 1 || len(b.Programs) != 1 || len(b.Programs[0].Parts) > 0 || len(b.Requests) != 1 {
		return false
	}
	r := &b.Requests[0]
	return len(r.Uses) == 1 && (r.Uses[0].Op == driver.Allow || r.Uses[0].Op <= driver.Charge && r.Times <= 1)
}

// timeOffset returns where the time of a batch is in the argument of run_one.lua. The program has n
// arguments.
func timeOffset(n int) int { return 8 + 1 + 4 + 8 + 6 + 8*n }

func newOneScript(p *algo.Program) (*script, error) {
	n := len(p.Args)
	body := strings.NewReplacer("TIME +", strconv.Itoa(timeOffset(n))+" +", "> TIME", "> "+strconv.Itoa(timeOffset(n)),
		"ARGS", ">"+strings.Repeat("i8", n)).Replace(runOneLua)
	text, err := program.LuaOf(*p, body)
	if err != nil {
		return nil, err
	}
	return newScript(text), nil
}

// appendOne appends the argument of run_one.lua.
func appendOne(dst []byte, b *driver.Batch) []byte {
	r := &b.Requests[0]
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Version))
	dst = append(dst, byte(r.Uses[0].Op))
	dst = binary.BigEndian.AppendUint32(dst, uint32(min(max(r.Times, 1), math.MaxInt32)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Uses[0].Cost))
	dst = appendMargin(dst, b)
	for _, arg := range b.Programs[0].Args {
		dst = binary.BigEndian.AppendUint64(dst, uint64(arg))
	}
	return appendNow(dst, b.Now)
}
