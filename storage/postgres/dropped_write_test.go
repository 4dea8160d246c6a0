package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

// write writes records under keys in one of the ways of a store. It returns their version, or 0 if it deletes.
type write func(t *testing.T, s *postgres.Store, keys ...string) (storage.Version, error)

func charges(batch func(...string) *driver.Batch) write {
	return func(t *testing.T, s *postgres.Store, keys ...string) (storage.Version, error) {
		b := batch(keys...)
		for _, r := range b.Requests {
			for i := range r.Uses {
				r.Uses[i].Op = driver.Charge
			}
		}
		s.Run(t.Context(), b)
		return b.Version, errors.Join(append(b.KeyErr, b.Err)...)
	}
}

func swaps(version storage.Version) write {
	return func(t *testing.T, s *postgres.Store, keys ...string) (storage.Version, error) {
		records, _, err := s.Load(t.Context(), keys...)
		require.NoError(t, err)
		var swaps []storage.Swap
		for i, r := range records {
			swaps = append(swaps, storage.Swap{Key: keys[i], Old: r.Version, TTL: time.Hour, New: storage.Record{Version: version}})
		}
		_, swapped, err := s.CompareAndSwap(t.Context(), swaps...)
		if err == nil && !swapped {
			err = errors.New("a conflict")
		}
		return version, err
	}
}

var writes = map[string]write{
	"a swap": swaps(7), "a deletion": swaps(0), "requests for each key": charges(requestEach), "a request for all keys": charges(oneRequest),
}

// newTrigger returns statements that make a trigger for each row of the table t. Its function has this body.
func newTrigger(when, body string) string {
	return "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + "; END $$; CREATE TRIGGER x " + when + " ON t FOR EACH ROW EXECUTE FUNCTION f()"
}

// newObstacle creates a table t with two records and an obstacle: triggers, rules or policies. It returns a pool whose role has
// no exemption from policies.
func newObstacle(t *testing.T, p *pgxpool.Pool, obstacle string) (schema string, limited *pgxpool.Pool) {
	schema = newSchema(t, p)
	run(t, open(t, p, postgres.Options{Schema: schema, Table: "t"}), requestEach("old a", "old b"))
	exec(t, p, "SET LOCAL search_path = "+schema+"; "+obstacle)
	if !strings.Contains(obstacle, "POLICY") {
		return schema, newPool(t, "")
	}
	exec(t, p, "ALTER TABLE "+schema+".t ENABLE ROW LEVEL SECURITY")
	return schema, newPoolAt(t, newRole(t, p, schema))
}

// remedy matches an error that names a trigger, a rule or a policy.
const remedy = "; check whether the table has a trigger|row-level security|INSERT or UPDATE rules|INSERT RETURNING"

// A write is done as requested, or it fails and changes nothing. A retry does not help.
func TestTableThatDropsOrChangesRowsFailsTheWrite(t *testing.T) {
	for name, obstacle := range map[string]string{
		"a trigger drops the write of a key":    newTrigger("BEFORE INSERT OR UPDATE", "IF NEW.key IN ('old b', 'new b') THEN RETURN NULL; END IF; RETURN NEW"),
		"a trigger keeps the version":           newTrigger("BEFORE UPDATE", "NEW.version := OLD.version; RETURN NEW"),
		"a trigger changes the state":           newTrigger("BEFORE INSERT OR UPDATE", "NEW.state := 'other'; RETURN NEW"),
		"a trigger changes the key":             newTrigger("BEFORE INSERT OR UPDATE", "NEW.key := 'other ' || NEW.key; RETURN NEW"),
		"a trigger changes the expiry":          newTrigger("BEFORE INSERT OR UPDATE", "NEW.expires_at := '2000-01-01'; RETURN NEW"),
		"a rule drops updates":                  "CREATE RULE x AS ON UPDATE TO t DO INSTEAD NOTHING",
		"a rule drops insertions":               "CREATE RULE x AS ON INSERT TO t DO INSTEAD NOTHING",
		"policies hide all rows":                "CREATE POLICY x ON t FOR INSERT WITH CHECK (true)",
		"policies do not permit updates":        "CREATE POLICY x ON t FOR SELECT USING (true); CREATE POLICY y ON t FOR INSERT WITH CHECK (true)",
		"policies refuse the written rows":      "CREATE POLICY x ON t USING (true) WITH CHECK (version = 0)",
		"policies hide the rows that they take": "CREATE POLICY x ON t FOR SELECT USING (version = 0); CREATE POLICY y ON t FOR INSERT WITH CHECK (true); CREATE POLICY z ON t FOR UPDATE USING (true)",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, "")
			schema, limited := newObstacle(t, p, obstacle)
			s, refused := storeOn(t, limited, postgres.Options{Schema: schema, Table: "t"}), 0
			const content = "SELECT coalesce(string_agg(t::text, ' ' ORDER BY key), '') FROM "
			for way, write := range writes {
				for _, keys := range [][]string{{"old a"}, {"new a"}, {"old b", "old a"}, {"new b", "new a"}} {
					what, before := fmt.Sprint(way, " ", keys), selected[string](t, p, content+schema+".t AS t")
					version, err := write(t, s, keys...)
					if err != nil {
						refused++
						requireKinds(t, err, storage.ErrNotApplied)
						require.Regexp(t, remedy, err.Error())
						require.Equal(t, before, selected[string](t, p, content+schema+".t AS t"), what)
						continue
					}
					records, _, err := s.Load(t.Context(), keys...)
					require.NoError(t, err)
					for _, r := range records {
						require.Equal(t, version, r.Version, what)
					}
				}
			}
			require.NotZero(t, refused)

			_, err := swaps(7)(t, storeOn(t, begin(t, limited), postgres.Options{Schema: schema, Table: "t"}), "old b", "old a", "new b", "new a")
			requireKinds(t, err, storage.ErrNotApplied)
			require.Regexp(t, remedy, err.Error())
		})
	}
}

// Purge must not report that no expired record is left, and must end.
func TestTableThatDropsAPurgeFailsIt(t *testing.T) {
	const records = postgres.PurgeBatch + 50
	for name, c := range map[string]struct {
		obstacle string
		removed  int
	}{
		"a trigger drops deletions":           {newTrigger("BEFORE DELETE", "RETURN NULL"), 0},
		"a trigger drops some deletions":      {newTrigger("BEFORE DELETE", "IF OLD.key = 'key 7' THEN RETURN NULL; END IF; RETURN OLD"), postgres.PurgeBatch - 2},
		"a trigger drops updates":             {newTrigger("BEFORE UPDATE", "RETURN NULL"), postgres.PurgeBatch - 1},
		"a trigger keeps purge_at":            {newTrigger("BEFORE UPDATE", "NEW.purge_at := OLD.purge_at; RETURN NEW"), postgres.PurgeBatch - 1},
		"a rule drops deletions":              {"CREATE RULE x AS ON DELETE TO t DO INSTEAD NOTHING", 0},
		"policies do not permit deletions":    {"CREATE POLICY x ON t FOR SELECT USING (true); CREATE POLICY y ON t FOR UPDATE USING (true)", 0},
		"policies refuse the updated records": {"CREATE POLICY x ON t USING (true) WITH CHECK (false)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, "")
			schema, limited := newObstacle(t, p, c.obstacle)
			exec(t, p, strings.ReplaceAll(`ALTER TABLE NAME DISABLE TRIGGER USER; TRUNCATE NAME;
				INSERT INTO NAME SELECT ('key ' || n)::bytea, 1, '', CASE n WHEN 5 THEN 'infinity' ELSE '2001-01-01' END::timestamptz, timestamptz '2000-01-01' + n * interval '1 s'
				FROM generate_series(1, $1::int) AS n; ALTER TABLE NAME ENABLE TRIGGER USER`, "NAME", schema+".t"), pgx.QueryExecModeSimpleProtocol, records)
			removed, err := storeOn(t, limited, postgres.Options{Schema: schema, Table: "t"}).Purge(t.Context(), 10*records)
			require.Error(t, err)
			require.Equal(t, c.removed, removed)
			require.Equal(t, records-c.removed, selected[int](t, p, "SELECT count(*) FROM "+schema+".t"))
		})
	}
}
