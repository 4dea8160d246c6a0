// The tests promise that Run compares the decisions of a trace, and that -update rewrites nothing else.
package tracetest

import (
	"testing"
)

func TestTraces(t *testing.T) { Run(t, "../../trace/testdata/*.trace") }
