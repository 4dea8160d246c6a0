package keys

import (
	"os"
	"testing"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Commands = []cli.NewCommand{Command, ResetCommand}
	code := m.Run()
	shared.Close()
	os.Exit(code)
}
