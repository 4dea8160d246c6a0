package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

func TestPercentages(t *testing.T) {
	tracetest.Answers(t, "testdata/percentages.txt", func(question string) string {
		text, number, _ := strings.Cut(question, " of ")
		total, err := strconv.ParseInt(number, 10, 64)
		require.NoError(t, err)
		share, ok := cli.ParsePercentage(text)
		if !ok {
			return "invalid"
		}
		return strconv.FormatInt(cli.Part(share, total), 10)
	})
}
