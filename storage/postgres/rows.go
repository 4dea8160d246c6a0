package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/storage"
)

// collect sends a statement on a connection of the pool and reads the rows of the reply.
func collect[T any](ctx context.Context, s *Store, read pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	db, release, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return collectOn(ctx, s, db, read, sql, args...)
}

// collectOn sends a statement on db and reads the rows of the reply.
func collectOn[T any](ctx context.Context, s *Store, db DB, read pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, s.failure(db, err)
	}
	all, err := pgx.CollectRows(rows, read)
	if err != nil {
		return nil, s.failure(db, err)
	}
	return all, nil
}

// loadedRow is a row of the reply to a load.
type loadedRow struct {
	place  int64 // of the key, from 1
	record storage.Record
}

// readLoaded reads a row. The columns after the state are scanned into more.
func readLoaded(row pgx.CollectableRow, more ...any) (l loadedRow, err error) {
	var version int64
	if err = row.Scan(append([]any{&l.place, &version, nil}, more...)...); err != nil {
		return l, err
	}
	l.record.Version = storage.Version(version)
	l.record.State, err = readBytes(row, 2)
	return l, err
}

// conflictRow is a row of the reply to a swap that was not made: one of its keys.
type conflictRow struct {
	place   int64  // of the key, from 1
	created bool   // all versions matched, but another transaction created this key
	version *int64 // of the stored record; nil if there is none
	state   []byte
}

func readConflict(row pgx.CollectableRow) (c conflictRow, err error) {
	if err = row.Scan(&c.place, &c.created, &c.version, nil); err != nil {
		return c, err
	}
	c.state, err = readBytes(row, 3)
	return c, err
}

// readBytes returns the value of a bytea column, or nil for NULL. In text format, pgx cannot read
// bytea_output=escape.
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

// parseBytes parses the text format of bytea. It is either \x and hexadecimal digits, or the bytes
// themselves, where \\ is a backslash and \ with three octal digits is any byte.
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
				return nil, fmt.Errorf("invalid escape in bytea: %q", octal)
			}
			value, text = append(value, byte(b)), text[3:]
		}
	}
	return value, nil
}
