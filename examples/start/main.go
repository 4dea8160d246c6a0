package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
)

func main() {
	limiter, err := sluice.New(nil, "fixedwindow 3/hour") // nil: in memory
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		decision, err := limiter.Allow(context.Background(), "ann")
		switch {
		case err != nil:
			log.Fatal(err) // the limiter could not decide; this is never a denial
		case decision.Allowed:
			fmt.Println("allowed,", decision.Remaining, "left")
		default:
			fmt.Println("denied, try again in", decision.RetryAfter.Round(time.Minute))
		}
	}
}
