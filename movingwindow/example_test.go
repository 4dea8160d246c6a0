package movingwindow_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/movingwindow"
)

// tenPerMinute has slots of 10s.
var tenPerMinute = movingwindow.Options{Limit: algo.Per(10, time.Minute), Slots: 6}

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func ExampleStep() {
	o := tenPerMinute
	o.Cost = 8
	s, r := movingwindow.Step(movingwindow.State{}, noon.Add(5*time.Second), o)
	fmt.Println(r.Allowed, r.Remaining, "left")
	o.Cost = 4
	_, r = movingwindow.Step(s, noon.Add(30*time.Second), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	_, r = movingwindow.Step(s, noon.Add(62500*time.Millisecond), o)
	fmt.Println(r.Allowed, "the rest of the slot counts for", r.Limit-r.Remaining-r.Paid)
	// Output:
	// true 2 left
	// false retry after 32.5s
	// true the rest of the slot counts for 6
}

func ExampleStep_whole() {
	o := tenPerMinute
	o.Trailing = movingwindow.Whole
	o.Cost = 8
	s, _ := movingwindow.Step(movingwindow.State{}, noon.Add(5*time.Second), o)
	o.Cost = 4
	_, r := movingwindow.Step(s, noon.Add(30*time.Second), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// false retry after 40s
}

func ExampleRefund() {
	o := tenPerMinute
	o.Cost = 8
	s, r := movingwindow.Step(movingwindow.State{}, noon, o)
	fmt.Println("reserved", r.Paid, "left", r.Remaining)
	o.Cost = 5 // only three were needed
	_, r = movingwindow.Refund(s, noon, o)
	fmt.Println("left", r.Remaining)
	// Output:
	// reserved 8 left 2
	// left 7
}

func ExampleCharge() {
	o := tenPerMinute
	o.Cost = 12
	s, r := movingwindow.Charge(movingwindow.State{}, noon, o)
	fmt.Println("left", r.Remaining)
	o.Cost = 1
	_, r = movingwindow.Step(s, noon, o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// left -2
	// false retry after 1m2.5s
}

func ExamplePolicy_Bound() {
	for _, trailing := range []movingwindow.Trailing{movingwindow.Weighted, movingwindow.Whole} {
		o := tenPerMinute
		o.Trailing = trailing
		p, _ := movingwindow.New(o)
		fmt.Println(trailing, "in 50s:", p.Bound(50*time.Second), "in a minute:", p.Bound(time.Minute))
	}
	// Output:
	// weighted in 50s: 10 in a minute: 19
	// whole in 50s: 10 in a minute: 10
}

func ExampleNew() {
	p, err := movingwindow.New(tenPerMinute)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, r, _ := p.Step(nil, nil, noon, 8)
	fmt.Println(p)
	fmt.Println(r.Remaining, "left,", len(state), "bytes of state")

	_, err = movingwindow.New(movingwindow.Options{Limit: algo.Per(10, time.Minute), Slots: 3600})
	fmt.Println(err)
	// Output:
	// movingwindow 10/m slots=6
	// 2 left, 19 bytes of state
	// movingwindow: Slots must be from 1 to 1024, or 0 for 1, got 3600
}
