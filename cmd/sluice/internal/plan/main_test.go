package plan

import (
	"testing"

	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
	"github.com/sluice-go/sluice/cmd/sluice/internal/replay"
)

func TestMain(m *testing.M) { clitest.Main(m, Command, replay.Command) }
