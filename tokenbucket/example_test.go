package tokenbucket_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/tokenbucket"
)

// batches refills three tokens every 50ms. The bucket holds five.
var batches = tokenbucket.Options{Limit: algo.Per(3, 50*time.Millisecond), Burst: 5, Refill: tokenbucket.Interval}

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func ExampleStep() {
	o := batches
	o.Cost = 2
	s, _ := tokenbucket.Step(tokenbucket.State{}, noon, o)
	s, r := tokenbucket.Step(s, noon.Add(2*time.Millisecond), o)
	fmt.Println(r.Allowed, "refilled", r.Refilled, "paid", r.Paid, "left", r.Remaining, "next refill in", r.NextRefill)
	_, r = tokenbucket.Step(s, noon.Add(2*time.Millisecond), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// true refilled 0 paid 2 left 1 next refill in 48ms
	// false retry after 48ms
}

func ExampleRefund() {
	o := batches
	o.Cost = 4
	s, r := tokenbucket.Step(tokenbucket.State{}, noon, o)
	fmt.Println("reserved", r.Paid, "left", r.Remaining)
	o.Cost = 3 // only one was needed
	_, r = tokenbucket.Refund(s, noon, o)
	fmt.Println("left", r.Remaining)
	// Output:
	// reserved 4 left 1
	// left 4
}

func ExampleCharge() {
	o := batches
	o.Cost = 7
	s, r := tokenbucket.Charge(tokenbucket.State{}, noon, o)
	fmt.Println("left", r.Remaining)
	o.Cost = 1
	_, r = tokenbucket.Step(s, noon, o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// left -2
	// false retry after 50ms
}

func ExamplePolicy_Bound() {
	for _, refill := range []tokenbucket.Refill{tokenbucket.Continuous, tokenbucket.Interval} {
		p, _ := tokenbucket.New(tokenbucket.Options{Limit: algo.Per(100, time.Minute), Refill: refill})
		fmt.Printf("%v: %d\n", refill, p.Bound(time.Minute))
	}
	// Output:
	// continuous: 200
	// interval: 200
}

func ExampleNew() {
	p, err := tokenbucket.New(tokenbucket.Options{Limit: algo.Per(10, time.Second), Burst: 50})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, r, _ := p.Step(nil, nil, noon, 8)
	fmt.Println(p)
	fmt.Println(r.Remaining, "left,", len(state), "bytes of state")

	_, err = tokenbucket.New(tokenbucket.Options{Limit: algo.Per(10, time.Second), Burst: -1})
	fmt.Println(err)
	// Output:
	// tokenbucket 10/s burst=50
	// 42 left, 25 bytes of state
	// tokenbucket: Burst must be at least 1, or 0 for the limit's count, got -1
}
