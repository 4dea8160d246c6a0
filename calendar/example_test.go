package calendar_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/calendar"
)

// A month in Berlin begins at midnight there.
func ExampleNew() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := calendar.New(calendar.Options{Count: 1000, Unit: calendar.Month, Zone: berlin})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(policy)
	evening := time.Date(2026, 3, 31, 20, 0, 0, 0, berlin)
	state, r, err := policy.Step(nil, nil, evening, 1000)
	fmt.Println(r.Allowed, r.Remaining, "left", err)
	_, r, err = policy.Step(nil, state, evening, 1)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter, err)
	// Output:
	// calendar 1000/month tz=Europe/Berlin
	// true 0 left <nil>
	// false retry after 4h0m0s <nil>
}

func ExampleStep() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	o := calendar.Options{Count: 10, Unit: calendar.Day, Zone: berlin, Cost: 10}
	night := time.Date(2026, 3, 29, 1, 0, 0, 0, berlin) // this day has 23 hours
	s, r := calendar.Step(calendar.State{}, night, o)
	fmt.Println(r.Allowed, r.Remaining, "left")
	_, r = calendar.Step(s, night, o)
	fmt.Println(r.Allowed, "retry after", r.RetryAfter)
	// Output:
	// true 0 left
	// false retry after 22h0m0s
}
