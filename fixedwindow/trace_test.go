package fixedwindow_test

import (
	"testing"

	"github.com/sluice-go/sluice/internal/trace"
)

func TestTraces(t *testing.T) { trace.Test(t, "testdata/*.trace") }
