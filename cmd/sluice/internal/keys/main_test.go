package keys

import (
	"testing"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, Command, ResetCommand) }
