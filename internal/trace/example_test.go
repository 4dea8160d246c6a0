// The tests promise that Parse accepts exactly the documented grammar and names each fault; that a written
// trace can be read again; and that Diff finds each decision that differs.
package trace_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluice-go/sluice/internal/trace"
)

const changed = `
# A limit raised on a live key: what was used stays used.
policy gcra 10/s
policy fixedwindow 10/s

#at    key   cost
@0s    alice 10 -> ok 0 0s 1s | ok 0 0s 1s
@0s    alice 1
policy gcra 15/s
@0s    alice 1 -> ok 5 0s 1s | deny 0 1s 1s
`

func ExampleTrace_Run() {
	t, err := trace.Parse(strings.NewReader(changed), "changed.trace")
	if err != nil {
		panic(err)
	}
	ran, err := t.Run()
	if err != nil {
		panic(err)
	}
	ran.Format(os.Stdout)
	// Output:
	// # A limit raised on a live key: what was used stays used.
	// policy gcra 10/s
	// policy fixedwindow 10/s
	//
	// #at    key   cost    verdict left retry reset     | verdict left retry reset
	// @0s    alice 10   -> ok      0    0s    1s        | ok      0    0s    1s
	// @0s    alice 1    -> deny    0    100ms 1s        | deny    0    1s    1s
	// policy gcra 15/s
	// @0s    alice 1    -> ok      4    0s    733.334ms | deny    0    1s    1s
}

func ExampleTrace_Diff() {
	t, err := trace.Parse(strings.NewReader(changed), "changed.trace")
	if err != nil {
		panic(err)
	}
	d, err := t.Diff()
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Events, "events differ, the first one in line", d.Line)
	fmt.Print(d.Text)
	// Output:
	// 2 events differ, the first one in line 8
	// --- changed.trace (want)
	// +++ changed.trace (got)
	// @@ -5,6 +5,6 @@
	//
	//  #at    key   cost    verdict left retry reset     | verdict left retry reset
	//  @0s    alice 10   -> ok      0    0s    1s        | ok      0    0s    1s
	// -@0s    alice 1
	// +@0s    alice 1    -> deny    0    100ms 1s        | deny    0    1s    1s
	//  policy gcra 15/s
	// -@0s    alice 1    -> ok      5    0s    1s        | deny    0    1s    1s
	// +@0s    alice 1    -> ok      4    0s    733.334ms | deny    0    1s    1s
}
