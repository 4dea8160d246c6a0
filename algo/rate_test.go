package algo_test

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/internal/testing/policytest"
	"github.com/sluice-go/sluice/internal/testing/sample"
)

// The rate is never above the limit, and slower by less than Rate tolerates. Few limits are refused if the burst refills within a year.
func TestRateIsTheLargestFractionBelowTheLimit(t *testing.T) {
	random := sample.New(1, 5)
	tried, refused := 0, 0
	for range policytest.Rounds(100_000) {
		most := sample.OneOf(random, int64(1<<31), algo.MaxCount)
		period := time.Duration(random.UpTo(365*24*time.Hour.Microseconds())) * time.Microsecond
		limit, burst := algo.Per(random.UpTo(most), period), random.UpTo(most)
		exact := big.NewRat(limit.Count, period.Microseconds())
		refill := new(big.Rat).Quo(new(big.Rat).SetInt64(burst), exact)
		rate, err := limit.Rate(burst)
		withinAYear := refill.Cmp(big.NewRat(365*24*time.Hour.Microseconds(), 1)) <= 0
		if withinAYear {
			tried++
		}
		if err != nil {
			if withinAYear {
				require.Greater(t, max(limit.Count, burst), int64(1<<31), err)
				refused++
			}
			continue
		}
		used := big.NewRat(rate.Drain, rate.Unit)
		require.LessOrEqual(t, used.Cmp(exact), 0, "%v burst=%d: %v", limit, burst, rate)
		slower, _ := new(big.Rat).Sub(big.NewRat(1, 1), used.Quo(used, exact)).Float64()
		if max(limit.Count, burst) > 1<<31 {
			require.Less(t, slower, 1e-4, "%v burst=%d: %v", limit, burst, rate)
		} else {
			require.Less(t, slower, 1e-6, "%v burst=%d: %v", limit, burst, rate)
		}
		require.Less(t, new(big.Int).Mul(big.NewInt(burst), big.NewInt(rate.Unit)).Cmp(big.NewInt(1<<51)), 0)
	}
	require.Greater(t, tried, 1000)
	require.Less(t, refused, tried/1000)
}

// No fraction with a Unit that fits is between the rate and the limit.
func TestNoSlowerRateThanNecessary(t *testing.T) {
	random := sample.New(1, 6)
	compared := 0
	for range policytest.Rounds(2000) {
		limit := algo.Per(random.UpTo(1<<20), time.Duration(random.UpTo(1<<30))*time.Microsecond)
		burst := int64(1<<39) + random.UpTo(1<<39) // a Unit of at most 2^12 fits
		rate, err := limit.Rate(burst)
		if err != nil {
			continue
		}
		compared++
		count, period := limit.Count, limit.Period.Microseconds()
		for unit := int64(1); unit <= (1<<51-1)/burst; unit++ {
			drain := unit * count / period
			require.LessOrEqual(t, drain*rate.Unit, rate.Drain*unit, "%v burst=%d: %d/%d is nearer than %v", limit, burst, drain, unit, rate)
		}
	}
	require.Positive(t, compared)
}

func TestRateOfRefusedLimitsNamesOneThatWorks(t *testing.T) {
	random := sample.New(1, 7)
	refused := 0
	for range policytest.Rounds(200_000) {
		limit, burst := random.Limit(), random.UpTo(algo.MaxCount)
		_, err := limit.Rate(burst)
		if err == nil {
			continue
		}
		refused++
		_, after, found := strings.Cut(err.Error(), "use a burst of ")
		require.True(t, found, err)
		number, _, _ := strings.Cut(after, ",")
		most, notNumber := strconv.ParseInt(number, 10, 64)
		require.NoError(t, notNumber)
		_, works := limit.Rate(most)
		require.NoError(t, works, err)
		for _, larger := range []int64{most + 1, most + random.UpTo(burst-most)} {
			_, works = limit.Rate(larger)
			require.Error(t, works, err)
		}
	}
	require.Positive(t, refused)
}

func ExampleLimit_Rate() {
	fmt.Println(algo.Per(100, time.Minute).Rate(100))
	fmt.Println(algo.Per(1234567, 30*24*time.Hour).Rate(1234567)) // slower than the limit by 1e-12
	fmt.Println(algo.Per(1, time.Hour).Rate(1_000_000))
	// Output:
	// {1 600000} <nil>
	// {490 1028765551} <nil>
	// {0 1} a burst of 1000000 at 1/h takes 71 years or longer to refill; use a burst of 625499, or a faster limit
}
