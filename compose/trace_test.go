package compose_test

import (
	"testing"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }
