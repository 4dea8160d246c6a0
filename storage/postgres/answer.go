package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

// collect sends a statement on a connection of its own and reads the rows of the
// answer.
func collect[T any](ctx context.Context, s *Store, read pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	db, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return collectOn(ctx, s, db, read, sql, args...)
}

func collectOn[T any](ctx context.Context, s *Store, db DB, read pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, s.failed(db, err)
	}
	all, err := pgx.CollectRows(rows, read)
	if err != nil {
		return nil, s.failed(db, err)
	}
	return all, nil
}

// found is a row of the answer to a load: what is there.
type found struct {
	place  int64 // of the key, from 1
	record storage.Record
}

func readFound(row pgx.CollectableRow) (found, error) { return scanFound(row) }

// readFoundAt also reads the time.
func readFoundAt(row pgx.CollectableRow, now *time.Time) (found, error) { return scanFound(row, now) }

func scanFound(row pgx.CollectableRow, more ...any) (f found, err error) {
	var version int64
	if err = row.Scan(append([]any{&f.place, &version, nil}, more...)...); err != nil {
		return f, err
	}
	f.record.Version = storage.Version(version)
	f.record.State, err = readBytes(row, 2)
	return f, err
}

// loser is a row of the answer to a swap: a key that was not written.
type loser struct {
	place   int64  // from 1
	raced   bool   // all keys matched, but this one was created by another meanwhile
	version *int64 // what is there; nil: nothing
	state   []byte
}

func readLoser(row pgx.CollectableRow) (l loser, err error) {
	if err = row.Scan(&l.place, &l.raced, &l.version, nil); err != nil {
		return l, err
	}
	l.state, err = readBytes(row, 3)
	return l, err
}

// readBytes is the value of a column of bytes, nil for null. Where pgx has the
// server answer in text, it could not read the format bytea_output=escape.
func readBytes(row pgx.CollectableRow, column int) ([]byte, error) {
	raw, field := row.RawValues()[column], row.FieldDescriptions()[column]
	if raw == nil || field.Format == pgx.BinaryFormatCode {
		return slices.Clone(raw), nil
	}
	value, err := parseBytes(raw)
	if err != nil {
		return nil, pgx.ScanArgError{ColumnIndex: column, FieldName: field.Name, Err: err}
	}
	return value, nil
}

// parseBytes reads the text form of bytes: \x and hexadecimal digits, or the bytes
// themselves but for \\, a backslash, and \ with three octal digits.
func parseBytes(text []byte) ([]byte, error) {
	if digits, ok := bytes.CutPrefix(text, []byte(`\x`)); ok {
		return hex.AppendDecode([]byte{}, digits)
	}
	value := make([]byte, 0, len(text))
	for len(text) > 0 {
		plain, escaped, more := bytes.Cut(text, []byte(`\`))
		value, text = append(value, plain...), escaped
		switch {
		case !more:
		case bytes.HasPrefix(text, []byte(`\`)):
			value, text = append(value, '\\'), text[1:]
		default:
			octal := text[:min(3, len(text))]
			b, err := strconv.ParseUint(string(octal), 8, 8)
			if err != nil || len(octal) < 3 {
				return nil, fmt.Errorf("bytes escaped as %q", octal)
			}
			value, text = append(value, byte(b)), text[3:]
		}
	}
	return value, nil
}
