package compose_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/fixedwindow"
	"github.com/sluice-go/sluice/gcra"
)

func ExampleAll() {
	second, err := gcra.New(gcra.Options{Limit: algo.Per(2, time.Second)})
	check(err)
	day, err := fixedwindow.New(fixedwindow.Options{Limit: algo.Per(3, 24*time.Hour), Align: fixedwindow.AlignClock})
	check(err)
	stack, err := compose.All(second, day)
	check(err)
	fmt.Println(stack)

	midnight := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	var state []byte
	for _, at := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second} {
		var r algo.Result
		state, r, err = stack.Step(nil, state, midnight.Add(at), 1)
		check(err)
		fmt.Printf("%v: allowed %v, %d left, retry after %v, bound by %v\n",
			at, r.Allowed, r.Remaining, r.RetryAfter, stack.Parts()[r.Part].Limit())
	}
	// Output:
	// all(gcra 2/s; fixedwindow 3/d align=clock)
	// 0s: allowed true, 1 left, retry after 0s, bound by 2/s
	// 0s: allowed true, 0 left, retry after 0s, bound by 2/s
	// 0s: allowed false, 0 left, retry after 500ms, bound by 2/s
	// 1s: allowed true, 0 left, retry after 0s, bound by 3/d
	// 2s: allowed false, 0 left, retry after 23h59m58s, bound by 3/d
}

// The second call is denied, which begins a penalty of an hour. The window would end after a minute.
func ExamplePunish() {
	penalty, err := compose.Punish(mustPolicy("fixedwindow 1/m"), time.Hour)
	check(err)
	fmt.Println(penalty)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var state []byte
	for _, at := range []time.Duration{0, time.Second, 2 * time.Minute, time.Hour + time.Second} {
		var r algo.Result
		state, r, err = penalty.Step(nil, state, start.Add(at), 1)
		check(err)
		fmt.Printf("%v: allowed %v, retry after %v\n", at, r.Allowed, r.RetryAfter)
	}
	// Output:
	// penalty(fixedwindow 1/m; for=1h)
	// 0s: allowed true, retry after 0s
	// 1s: allowed false, retry after 1h0m0s
	// 2m0s: allowed false, retry after 58m1s
	// 1h0m1s: allowed true, retry after 0s
}

// Step takes an estimate from both parts. Refund gives the unused units back.
func ExampleStack_Refund() {
	stack := mustPolicy("all(gcra 1000/m; gcra 10000/h)")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state, r, _ := stack.Step(nil, nil, now, 800)
	fmt.Println("estimate:", r.Remaining, "left")
	_, r, _ = stack.Refund(nil, state, now, 350)
	fmt.Println("settled: ", r.Remaining, "left")
	// Output:
	// estimate: 200 left
	// settled:  550 left
}

// Charge takes units even if they are not left. The debt is refilled first.
func ExampleStack_Charge() {
	stack := mustPolicy("all(gcra 1000/m; gcra 10000/h)")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state, _, _ := stack.Step(nil, nil, now, 800)
	state, r, _ := stack.Charge(nil, state, now, 500)
	fmt.Println(r.Remaining, "left")
	r, _ = stack.Peek(state, now, 1)
	fmt.Println("the next unit in", r.RetryAfter)
	// Output:
	// -300 left
	// the next unit in 18.06s
}

// Bound returns the bound of the part that admits least in the interval.
func ExampleStack_Bound() {
	stack := mustPolicy("all(gcra 10/s; gcra 100/m)")
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		fmt.Println(interval, stack.Bound(interval))
	}
	// Output:
	// 1s 20
	// 10s 110
	// 1m0s 200
}

// Program returns the programs of the parts, which a server runs.
func ExampleStack_Program() {
	for _, spec := range []string{"all(gcra 10/s; gcra 1000/d)", "all(gcra 10/s; fixedwindow 1000000/365d)"} {
		program, ok := mustPolicy(spec).(*compose.Stack).Program()
		fmt.Println(spec, ok, len(program.Parts))
	}
	// Output:
	// all(gcra 10/s; gcra 1000/d) true 2
	// all(gcra 10/s; fixedwindow 1000000/365d) true 2
}

func ExampleParsePolicy() {
	for _, spec := range []string{
		"gcra 100/m burst=20",
		"tokenbucket 10/s burst=50 refill=interval",
		"fixedwindow 1000/d align=clock offset=-1h",
		"movingwindow 100/m slots=12 trailing=weighted",
		"all(gcra 10/s; all(gcra 100/m; gcra 1000/24h))",
	} {
		policy, err := compose.ParsePolicy(spec)
		check(err)
		fmt.Println(policy)
	}
	// Output:
	// gcra 100/m burst=20
	// tokenbucket 10/s burst=50 refill=interval
	// fixedwindow 1000/d align=clock offset=-1h
	// movingwindow 100/m slots=12
	// all(gcra 10/s; gcra 100/m; gcra 1000/d)
}

func ExampleSpecError() {
	_, err := compose.ParsePolicy("gcra 100/m brust=20")
	fmt.Println(err)
	var bad *compose.SpecError
	if errors.As(err, &bad) {
		fmt.Println(bad.Caret())
	}
	// Output:
	// compose: policy "gcra 100/m brust=20", column 12: unknown option "brust"; gcra takes burst=; did you mean burst=?
	// gcra 100/m brust=20
	//            ^^^^^^^^
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
