package calendar_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/calendar"
)

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
