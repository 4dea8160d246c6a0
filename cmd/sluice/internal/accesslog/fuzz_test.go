package accesslog

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParse reads any text as two logs, and compares with the naive reader. It skips the comparison if
// the text is not UTF-8, because encoding/json replaces invalid bytes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodLine+"\n"), []byte(`{"time":1.5,"ip":"192.0.2.7"}`), uint16(60_000))
	for _, prefix := range prefixes {
		f.Add([]byte(prefix+goodLine+"\n"+goodLine), []byte(prefix+`{"time":1.5,"ip":"192.0.2.7"}`), uint16(60_000))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, millis uint16) {
		logs := []naiveLog{{"first", first}, {"second", second}}
		o := Options{Reorder: time.Duration(millis) * time.Millisecond}
		if millis%2 == 1 {
			o.TimeField, o.KeyField = "t", "k"
		}
		got, stats := readInOneGo(t, logs, o)
		if followed(first) && followed(second) {
			want, counts := naiveRead(logs, o)
			compare(t, want, got, counts, stats)
		}
	})
}

// readInOneGo reads without a goroutine, so that equal inputs have equal coverage.
func readInOneGo(tb testing.TB, logs []naiveLog, o Options) (entries []naiveEntry, stats Stats) {
	m := merger{ctx: tb.Context(), o: o, count: new(atomic.Int64), stats: &stats}
	for _, log := range logs {
		m.inputs = append(m.inputs, FromReader(log.name, bytes.NewReader(log.data)))
	}
	require.NoError(tb, m.start())
	w := newWindow(o.Reorder, allFields, &stats, func(batch *records) *records {
		for i, r := range batch.list {
			e := Entry{File: logs[r.input].name}
			batch.read(i, &e, allFields)
			entries = append(entries, copied(&e))
		}
		return new(records)
	})
	require.NoError(tb, m.run(w.add))
	w.flush()
	return entries, stats
}

func followed(data []byte) bool {
	for _, line := range naiveLines(data) {
		if strings.Contains(line, "{") && (!utf8.ValidString(line) || len(line) > 1500) {
			return false
		}
	}
	return !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) || len(data) < 1000
}
