package inflight_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/inflight"
)

// two allows two units at a time. Its slots are 10s long.
var two = inflight.Options{Count: 2, TTL: 30 * time.Second, Slots: 3}

var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

func ExampleStep() {
	var s inflight.State
	for range 3 {
		next, r := inflight.Step(s, noon, two)
		fmt.Println(r.Allowed, r.Remaining, "left, retry after", r.RetryAfter)
		s = next
	}
	// Output:
	// true 1 left, retry after 0s
	// true 0 left, retry after 0s
	// false 0 left, retry after 40s
}

func ExampleRelease() {
	s, r := inflight.Step(inflight.State{}, noon, two)
	taken := noon.Add(r.Skew)
	fmt.Println(r.Remaining, "left")
	now := noon.Add(25 * time.Second)
	s, r = inflight.Release(s, now, taken, two)
	fmt.Println(r.Remaining, "left")
	_, r = inflight.Release(s, now, taken, two) // changes nothing
	fmt.Println(r.Remaining, "left")
	// Output:
	// 1 left
	// 2 left
	// 2 left
}

func ExampleRenew() {
	s, r := inflight.Step(inflight.State{}, noon, two)
	taken := noon.Add(r.Skew)
	fmt.Println("held for at most", r.ResetAfter)
	now := noon.Add(20 * time.Second)
	s, r = inflight.Renew(s, now, taken, two)
	taken = now.Add(r.Skew)
	fmt.Println(r.Allowed, "held for at most", r.ResetAfter)
	_, r = inflight.Renew(s, now.Add(40*time.Second), taken, two) // too late
	fmt.Println(r.Allowed, r.Remaining, "left")
	// Output:
	// held for at most 40s
	// true held for at most 40s
	// false 2 left
}

func ExampleNew() {
	p, err := inflight.New(inflight.Options{Count: 20, TTL: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, r, _ := p.Step(nil, nil, noon, 8)
	fmt.Println(p)
	fmt.Println(r.Remaining, "left,", len(state), "bytes of state")

	_, err = inflight.New(inflight.Options{Count: 20})
	fmt.Println(err)
	// Output:
	// inflight 20 ttl=30s
	// 12 left, 19 bytes of state
	// inflight: TTL must be from 1ms to 8760h, which is a year, got 0s
}

func ExamplePolicy_Held() {
	p, _ := inflight.New(two)
	state, r, _ := p.Step(nil, nil, noon, 2)
	taken, now := noon.Add(r.Skew), noon.Add(25*time.Second)
	state, r, _ = p.Held(taken).Step(nil, state, now, 2)
	fmt.Println("renewed:", r.Allowed, r.Remaining, "left")
	_, r, _ = p.Held(now.Add(r.Skew)).Refund(nil, state, now, 2)
	fmt.Println("released:", r.Remaining, "left")
	// Output:
	// renewed: true 0 left
	// released: 2 left
}
