package servers

import (
	"os"
	"testing"
)

var shared Shared

func TestMain(m *testing.M) {
	if os.Getenv(startAndDie) != "" {
		startAndDieNow()
	}
	os.Exit(shared.Main(m, PgBouncerPrograms))
}
