// Sidebyside applies four algorithms with the limit 4/10s to the same calls. The fixed window
// allows 7 calls from second 7 to 13, because a new window begins at second 10. The moving
// window never allows more than 4 calls in 10 seconds.
//
//	go run ./examples/sidebyside
package main

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

func main() {
	policies := []sluice.Policy{
		sluice.MustPolicy("gcra 4/10s"),
		sluice.MustPolicy("tokenbucket 4/10s refill=interval"),
		sluice.MustPolicy("fixedwindow 4/10s"),
		sluice.MustPolicy("movingwindow 4/10s slots=10 trailing=whole"),
	}
	arrivals := []int{0, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20} // in seconds

	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	fmt.Printf("%-44s", "second")
	for _, second := range arrivals {
		fmt.Printf("%3d", second)
	}
	fmt.Println("  allowed")
	for _, policy := range policies {
		fmt.Printf("%-44s", policy)
		var state []byte
		allowed := 0
		for _, second := range arrivals {
			next, result, err := policy.Step(nil, state, noon.Add(time.Duration(second)*time.Second), 1)
			if err != nil {
				panic(err)
			}
			state = next
			if result.Allowed {
				allowed++
			}
			fmt.Printf("%3s", map[bool]string{true: "+", false: "."}[result.Allowed])
		}
		fmt.Printf("%9d\n", allowed)
	}
}
