package suggest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/suggest"
)

// A client sends a request every ten seconds. Another one sends five requests at once.
func Example() {
	noon := time.Date(2025, 3, 4, 12, 0, 0, 0, time.UTC)
	log := suggest.NewLog(suggest.NewMemory(1 << 20))
	add := func(second int, client string) {
		if _, err := log.Add(noon.Add(time.Duration(second)*time.Second), []byte(client)); err != nil {
			fmt.Println(err)
		}
	}
	for i := range 30 {
		add(10*i, "ann")
	}
	for range 5 {
		add(300, "bob")
	}
	requests, _ := log.Group()

	template, err := suggest.ParseTemplate("gcra ?/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, percentage := range []string{"100%", "95%"} {
		share, err := suggest.ParseShare(percentage)
		if err != nil {
			fmt.Println(err)
			return
		}
		found, err := suggest.Run(context.Background(), nil, suggest.Search{
			Requests: requests, Template: template, Goal: suggest.Goal{Share: share, Of: suggest.OfRequests},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		best, tighter := found[0].Best, found[0].Tighter
		fmt.Printf("%s: %v denies %d, %v denies %d\n", percentage, best.Policy, best.Denied, tighter.Policy, tighter.Denied)
	}
	// Output:
	// 100%: gcra 6/m denies 0, gcra 5/m denies 1
	// 95%: gcra 5/m denies 1, gcra 4/m denies 8
}
