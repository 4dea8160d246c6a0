package stores

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestAddresses(t *testing.T) {
	tracetest.Answers(t, "testdata/addresses.txt", func(address string) string {
		if err := check(address); err != nil {
			require.NotContains(t, err.Error(), "secret")
			return err.Error()
		}
		return redacted(address)
	})
}
