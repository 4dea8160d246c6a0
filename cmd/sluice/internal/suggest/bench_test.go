package suggest_test

// These tests promise:
//
//   - A replay with the number found meets the goal. With one less it does not. A replay that is
//     independent of the search has the same counts (search_test.go).
//   - Shares are exact, without floating-point numbers (goal_test.go).
//   - A log stores each request in bounded memory, and a search ends with its context (log_test.go).
//   - The error of an invalid template shows the word at fault (template_test.go).

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// BenchmarkRun searches the four default policies in a million requests of that many clients. Some
// clients send far more than others. A day's requests come in bursts.
func BenchmarkRun(b *testing.B) {
	for _, clients := range []int{1, 100, 10_000, 300_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			requests := million(b, clients)
			share, err := suggest.ParseShare("99.9%")
			require.NoError(b, err)
			var searches []suggest.Search
			for _, spec := range []string{"gcra ?/m", "tokenbucket ?/m", "fixedwindow ?/m", "movingwindow ?/m"} {
				template, err := suggest.ParseTemplate(spec)
				require.NoError(b, err)
				searches = append(searches, suggest.Search{Requests: requests, Template: template, Goal: suggest.Goal{Share: share}})
			}
			replays := 0
			for b.Loop() {
				_, err := suggest.Run(b.Context(), func() { replays++ }, searches...)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(replays)/float64(b.N), "replays/op")
		})
	}
}

func million(b *testing.B, clients int) *suggest.Requests {
	log := suggest.NewLog(suggest.NewMemory(1 << 30))
	random := rand.New(rand.NewPCG(1, 2))
	at := start
	for range 1_000_000 {
		if random.IntN(10) == 0 {
			at = at.Add(time.Duration(random.IntN(1700)) * time.Millisecond)
		}
		share := random.Float64()
		client := int(float64(clients) * share * share * share)
		_, err := log.Add(at, []byte(strconv.Itoa(client)))
		require.NoError(b, err)
	}
	requests, _ := log.Group()
	return requests
}
