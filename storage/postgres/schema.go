package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (o Options) name() string {
	if o.Schema == "" {
		return pgx.Identifier{o.Table}.Sanitize()
	}
	return pgx.Identifier{o.Schema, o.Table}.Sanitize()
}

// Schema is the DDL of the store's table. It does nothing where the table is
// there. The schema named in Options must exist.
func (s *Store) Schema() string {
	kind := "TABLE"
	if s.options.Unlogged {
		kind = "UNLOGGED TABLE"
	}
	return fmt.Sprintf(`CREATE %s IF NOT EXISTS %s (
	key        bytea       NOT NULL PRIMARY KEY,
	version    bigint      NOT NULL, -- drawn at random for every write
	state      bytea       NOT NULL,
	expires_at timestamptz NOT NULL  -- infinity: never
) WITH (fillfactor = 70); -- room for updates in place
`, kind, s.options.name())
}

// Migrate applies [Store.Schema]. Several processes may do so at once, also in a
// transaction of the caller, which goes on whatever becomes of this.
func (s *Store) Migrate(ctx context.Context) error {
	err := s.create(ctx)
	if isThere(err) { // another one was first
		err = s.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("postgres: creating table %s: %w", s.options.name(), err)
	}
	return nil
}

// create is a transaction, or a savepoint of the caller's: a statement that
// fails must not end theirs.
func (s *Store) create(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.Schema())
		return err
	})
}

// isThere is true for the table or its type created meanwhile: committed, or
// just now.
func isThere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P07" || e.Code == "42710" || e.Code == "23505")
}

// Purge removes up to max expired records; see [storage.Purger]. It waits for
// no lock: records that are being written are passed over.
func (s *Store) Purge(ctx context.Context, max int) (int, error) {
	if max <= 0 {
		return 0, ctx.Err()
	}
	tag, err := s.db.Exec(ctx, s.sql.purge, max)
	if err != nil {
		return 0, s.failed(err)
	}
	return int(tag.RowsAffected()), nil
}

type statements struct {
	load, swap, purge string
}

func newStatements(o Options) statements {
	in := strings.NewReplacer("TABLE", o.name())
	return statements{load: in.Replace(loadSQL), swap: in.Replace(swapSQL), purge: in.Replace(purgeSQL)}
}

const loadSQL = `SELECT found.* FROM unnest($1::bytea[]) AS k (key)
	CROSS JOIN LATERAL (SELECT key, version, state FROM TABLE AS t WHERE t.key = k.key AND expires_at > clock_timestamp() OFFSET 0) AS found`

// purgeSQL has an array, because a subquery with a limit might run twice.
const purgeSQL = `DELETE FROM TABLE WHERE key = ANY(ARRAY(
	SELECT key FROM TABLE WHERE expires_at <= clock_timestamp() LIMIT $1 FOR UPDATE SKIP LOCKED
)) AND expires_at <= clock_timestamp()`

// swapSQL locks what is there in the order of the keys, compares each group,
// and writes those that match: first it creates what was not there, also in the
// order of the keys, and then it replaces.
//
// A key that was not there when the statement began may have been created
// meanwhile: then the insertion does nothing. Because the rest of its group may
// be written already, that is made an error (a division by zero), which undoes
// the statement; of one key alone nothing is written, and it is a conflict.
//
// So nobody who creates waits for a lock on what is there, but only for those
// who create a greater key, and no ring of such waits is possible.
//
// Keys are looked up one by one, so that a plan made while the table is small, and
// kept, does not read all of it when it is not.
//
// The wait for a lock has a limit, for this statement: else a context that ends
// meanwhile would leave it in doubt whether the statement was applied.
const swapSQL = `
WITH want AS (
	SELECT * FROM unnest($1::int[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[])
		WITH ORDINALITY AS w (grp, key, old, new, state, ttl, place)
), patience AS MATERIALIZED (
	SELECT CASE WHEN $7::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $7 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $7::text END, true) END
), there AS MATERIALIZED (
	SELECT found.* FROM (SELECT key FROM unnest($2::bytea[]) AS u (key) WHERE (SELECT true FROM patience) ORDER BY key) AS k
	CROSS JOIN LATERAL (SELECT key, version, state, expires_at FROM TABLE AS t WHERE t.key = k.key FOR UPDATE) AS found
), live AS MATERIALIZED (
	SELECT key, version, state FROM there WHERE expires_at > clock_timestamp()
), verdict AS MATERIALIZED (
	SELECT grp, bool_and(coalesce(live.version, 0) = old) AS same FROM want LEFT JOIN live USING (key) GROUP BY grp
), record AS MATERIALIZED (
	SELECT place, key, new, want.state, CASE
		WHEN ttl > 0 THEN clock_timestamp() + ttl * interval '1 microsecond'
		WHEN ttl = 0 THEN 'infinity' ELSE '-infinity' END AS expires_at, there.key IS NULL AS absent
	FROM want JOIN verdict USING (grp) LEFT JOIN there USING (key) WHERE same
), created AS (
	INSERT INTO TABLE (key, version, state, expires_at)
	SELECT key, new, state, expires_at FROM record WHERE absent ORDER BY place
	ON CONFLICT (key) DO NOTHING RETURNING key
), complete AS MATERIALIZED (
	SELECT 1 / CASE
		WHEN (SELECT count(*) FROM created) = (SELECT count(*) FROM record WHERE absent) THEN 1
		WHEN cardinality($2::bytea[]) = 1 THEN 2 ELSE 0 END AS one
), replaced AS (
	INSERT INTO TABLE AS t (key, version, state, expires_at)
	SELECT key, new, state, expires_at FROM record, complete WHERE NOT absent AND one = 1
	ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at
)
SELECT same AND one = 1, live.version, live.state
FROM want JOIN verdict USING (grp) CROSS JOIN complete LEFT JOIN live USING (key) ORDER BY place`
