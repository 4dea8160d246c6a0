package postgres

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

// row is a row of a reply: one key.
type row struct {
	place   int64  // of the key, from 1
	version *int64 // of the stored record; nil if there is none
	state   []byte
	created bool    // another transaction created the key, so the statement did nothing with it
	at      int64   // the time in ns
	count   int64   // of the only request of the key
	counts  []int64 // of all requests, in the first row
}

func (r *row) record() storage.Record {
	if r.version == nil {
		return storage.Record{}
	}
	return storage.Record{Version: storage.Version(*r.version), State: r.state}
}

func readRow(from pgx.CollectableRow) (r row, err error) {
	if err = from.Scan(&r.place, &r.version, nil, &r.created, &r.at, &r.count, &r.counts); err != nil {
		return r, err
	}
	const column = 2
	raw, field := from.RawValues()[column], from.FieldDescriptions()[column]
	if raw == nil || field.Format == pgx.BinaryFormatCode {
		r.state = slices.Clone(raw)
		return r, nil
	}
	if r.state, err = parseBytes(raw); err != nil {
		err = pgx.ScanArgError{ColumnIndex: column, FieldName: field.Name, Err: err}
	}
	return r, err
}

// parseBytes parses the text format of bytea, because pgx cannot read bytea_output=escape. It is either
// \x and hexadecimal digits, or the bytes themselves, where \\ is a backslash and \ with three octal
// digits is any byte.
func parseBytes(text []byte) ([]byte, error) {
	if digits, ok := bytes.CutPrefix(text, []byte(`\x`)); ok {
		return hex.AppendDecode([]byte{}, digits)
	}
	value := make([]byte, 0, len(text))
	for rest := string(text); rest != ""; {
		char, _, after, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			return nil, err
		}
		value, rest = append(value, byte(char)), after
	}
	return value, nil
}
