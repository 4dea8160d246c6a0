// These tests promise that the store obeys the laws of all stores.
package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/storage/memory"
	"github.com/sluice-go/sluice/storage/storagetest"
)

func TestLaws(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Harness {
		var passed atomic.Int64
		now := func() time.Time { return time.Unix(1e9, passed.Load()) }
		return storagetest.Harness{
			Store:   &memory.Store{Clock: now},
			Other:   &memory.Store{Clock: now},
			Advance: func(d time.Duration) { passed.Add(int64(d)) },
			Now:     now,
		}
	})
}
