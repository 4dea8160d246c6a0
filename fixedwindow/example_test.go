package fixedwindow_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/fixedwindow"
)

// hourly is five per hour, from the first request.
var hourly = fixedwindow.Options{Limit: algo.Per(5, time.Hour)}

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func ExampleStep() {
	o := hourly
	o.Cost = 3
	s, r := fixedwindow.Step(fixedwindow.State{}, noon.Add(20*time.Minute), o)
	fmt.Println(r.Allowed, r.Remaining, "left")
	_, r = fixedwindow.Step(s, noon.Add(50*time.Minute), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// true 2 left
	// false retry after 30m0s
}

func ExampleStep_clock() {
	o := hourly
	o.Align = fixedwindow.AlignClock
	o.Cost = 3
	s, _ := fixedwindow.Step(fixedwindow.State{}, noon.Add(20*time.Minute), o)
	_, r := fixedwindow.Step(s, noon.Add(50*time.Minute), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)

	o.Offset = -5 * time.Minute // windows end at five minutes to the hour
	_, r = fixedwindow.Step(s, noon.Add(50*time.Minute), o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// false retry after 10m0s
	// false retry after 5m0s
}

func ExampleRefund() {
	o := hourly
	o.Cost = 4
	s, r := fixedwindow.Step(fixedwindow.State{}, noon, o)
	fmt.Println("reserved", r.Paid, "left", r.Remaining)
	o.Cost = 3 // only one was needed
	_, r = fixedwindow.Refund(s, noon, o)
	fmt.Println("left", r.Remaining)
	// Output:
	// reserved 4 left 1
	// left 4
}

func ExampleCharge() {
	o := hourly
	o.Cost = 7
	s, r := fixedwindow.Charge(fixedwindow.State{}, noon, o)
	fmt.Println("left", r.Remaining)
	o.Cost = 1
	_, r = fixedwindow.Step(s, noon, o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// left -2
	// false retry after 1h0m0s
}

func ExamplePolicy_Bound() {
	p, _ := fixedwindow.New(hourly)
	fmt.Println("in one instant:", p.Bound(1))
	fmt.Println("in two:", p.Bound(2))
	fmt.Println("in an hour:", p.Bound(time.Hour))
	fmt.Println("in a day:", p.Bound(24*time.Hour))
	// Output:
	// in one instant: 5
	// in two: 9
	// in an hour: 10
	// in a day: 125
}

func ExampleNew() {
	p, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(1000, 24*time.Hour), Align: fixedwindow.AlignClock, Offset: -2 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, r, _ := p.Step(nil, nil, noon, 8)
	fmt.Println(p)
	fmt.Println(r.Remaining, "left,", len(state), "bytes of state, reset in", r.ResetAfter)

	_, err = fixedwindow.New(fixedwindow.Options{Limit: algo.Per(1000, time.Hour), Offset: time.Minute})
	fmt.Println(err)
	// Output:
	// fixedwindow 1000/d align=clock offset=-2h
	// 992 left, 17 bytes of state, reset in 10h0m0s
	// fixedwindow: Offset is for AlignClock; with AlignFirst it must be 0, got 1m
}
