package accesslog

import (
	"bytes"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzParse reads any text as two logs, whole and byte by byte, plain and compressed. The reader loses no line, and delivers
// the same entries in the order of time.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodLine+"\n"), []byte(`{"time":1000000001.5,"ip":"192.0.2.7"}`), uint16(60_000))
	for _, prefix := range prefixes {
		f.Add([]byte(prefix+goodLine+"\n"+goodLine), []byte(prefix+`{"time":1000000001.5,"ip":"192.0.2.7"}`), uint16(60_000))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, millis uint16) {
		o := Options{Reorder: time.Duration(millis) * time.Millisecond}
		if millis%2 == 1 {
			o.TimeField, o.KeyField = "t", "k"
		}
		entries, stats := readInOneGo(t, o, FromReader("first", bytes.NewReader(first)), FromReader("second", bytes.NewReader(second)))
		require.Equal(t, stats.Lines, stats.Entries+stats.Skipped)
		require.Len(t, entries, int(stats.Entries))
		require.True(t, slices.IsSortedFunc(entries, func(a, b entry) int { return a.Time.Compare(b.Time) }))
		if bytes.HasPrefix(first, []byte{0x1f, 0x8b}) || bytes.HasPrefix(second, []byte{0x1f, 0x8b}) {
			return
		}
		again, counts := readInOneGo(t, o, FromReader("first", iotest.OneByteReader(bytes.NewReader(first))), FromReader("second", bytes.NewReader(zipped(second))))
		require.Equal(t, entries, again)
		require.Equal(t, stats, counts)
	})
}

// readInOneGo reads without a goroutine, so that equal inputs have equal coverage.
func readInOneGo(t *testing.T, o Options, inputs ...Input) (entries []entry, stats Stats) {
	o.Fields = allFields
	m := merger{ctx: t.Context(), o: o}
	_ = m.read(inputs, func(batch *records) *records {
		for i, r := range batch.list {
			e := Entry{File: inputs[r.input].Name}
			batch.read(i, &e, allFields)
			entries = append(entries, copied(&e))
		}
		return new(records)
	})
	return entries, m.stats
}
