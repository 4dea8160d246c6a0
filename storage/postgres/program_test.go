package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
	"github.com/sluice-go/sluice/storage/postgres"
)

func TestStoreWithoutFunctions(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	without := open(t, p, postgres.Options{Schema: schema, Table: "limits", NoFunctions: true})
	_, program := twoAnHour()
	require.False(t, without.Runs(program))
	require.NotContains(t, without.Schema(), "FUNCTION")
	b := requestEach("a")
	without.Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	requireLimits(t, without)

	s := storeOn(t, p, postgres.Options{Schema: schema, Table: "limits"})
	require.True(t, s.Runs(program))
	s.Run(t.Context(), b)
	requireKinds(t, b.Err, storage.ErrNotApplied)
	require.ErrorContains(t, b.Err, "call Store.Migrate first, or set Options.NoFunctions")
	require.NoError(t, s.Migrate(t.Context()))
	run(t, s, b)
}

// A store refuses a program that is not in its Options. Stores with different programs may share a
// schema.
func TestRunOfAUsersProgram(t *testing.T) {
	p := newPool(t, "")
	schema := newSchema(t, p)
	always := algo.Program{Name: "always", SQL: `BEGIN state := state || '\x01'::bytea; ttl := 1000000000; END `}
	plain := open(t, p, postgres.Options{Schema: schema, Table: "limits"})
	require.False(t, plain.Runs(&always))
	b := requestEach("a")
	_, standard := twoAnHour()
	b.Programs[0] = &always
	plain.Run(t.Context(), b)
	require.ErrorContains(t, b.Err, `"always"`)

	s := open(t, p, postgres.Options{Schema: schema, Table: "limits", Programs: []algo.Program{always}})
	require.True(t, s.Runs(&algo.Program{Parts: []algo.Program{always, *standard}}))
	for range 2 {
		run(t, s, b)
		b.Version++
	}
	require.Equal(t, []byte{1}, b.Found[0].State)
	run(t, plain, requestEach("b"))

	_, err := postgres.New(p, postgres.Options{Programs: []algo.Program{always, {Name: "always", SQL: "BEGIN END"}}})
	require.ErrorContains(t, err, "two different programs")
}

// A retry does not help, whatever the code of the error is.
func TestFailingProgramOfAUserIsReported(t *testing.T) {
	p := newPool(t, "")
	for code, fails := range map[string]string{"22012": "times := 1 / (times - 1)", "22P02": "times := 'many'"} {
		broken := algo.Program{Name: "broken", SQL: "BEGIN " + fails + "; END "}
		s := open(t, p, postgres.Options{Schema: newSchema(t, p), Table: "limits", Programs: []algo.Program{broken}})
		for _, b := range []*driver.Batch{requestEach("a"), requestEach("a", "b"), oneRequest("a", "b")} {
			b.Programs[0] = &broken
			s.Run(t.Context(), b)
			requireKinds(t, b.Err, storage.ErrNotApplied)
			require.ErrorContains(t, b.Err, code)
		}
	}
}
