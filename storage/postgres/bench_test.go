package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/postgres"
)

// Groups of one key each, swapped again and again: the cost is that of one
// group.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("groups=", size), func(b *testing.B) {
			p, err := pgxpool.New(context.Background(), shared.Postgres(b).DSN())
			require.NoError(b, err)
			defer p.Close()
			s, err := postgres.New(p, postgres.Options{Table: fmt.Sprint("bench_", tables.Add(1))})
			require.NoError(b, err)
			require.NoError(b, s.Migrate(context.Background()))
			groups := make([][]storage.Swap, size)
			for i := range groups {
				groups[i] = creating(fmt.Sprint("key ", i))
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				for i, o := range s.CompareAndSwapBatch(context.Background(), groups...) {
					if !o.Swapped {
						b.Fatal(o)
					}
					s := &groups[i][0]
					s.Old, s.New.Version = s.New.Version, storage.NewVersion()
					s.TTL, s.Until = time.Minute, time.Now().Add(time.Minute)
				}
			}
		})
	}
}
