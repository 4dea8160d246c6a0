// These tests promise that servers start, stop, pause and restart as documented, that nothing of them
// remains after a test, and that a missing program skips or fails a test.
package servers

import (
	"os"
	"testing"
)

var shared Shared

func TestMain(m *testing.M) {
	if os.Getenv(panicVariable) != "" {
		startServerAndPanic()
	}
	os.Exit(shared.Main(m, PgBouncerPrograms))
}
