package servers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeT records a skip or a failure.
type fakeT struct {
	testing.TB
	result string
}

func (w *fakeT) Helper()           {}
func (w *fakeT) Skip(args ...any)  { w.result = "skip: " + fmt.Sprint(args...) }
func (w *fakeT) Fatal(args ...any) { w.result = "fatal: " + fmt.Sprint(args...) }

func TestMissingProgramSkipsUnlessRequired(t *testing.T) {
	if testing.Short() {
		t.Skip("tests with servers do not run with -short")
	}
	const line = "no-such-server is missing; scripts/test.sh installs it, or on Debian: apt-get install no-such-server"
	tests := []struct{ required, result string }{
		{"", "skip: " + line},
		{"1", "fatal: " + line},
	}
	for _, test := range tests {
		t.Setenv("SLUICE_REQUIRE_SERVERS", test.required)
		w := &fakeT{}
		need(w, "no-such-server")
		require.Equal(t, test.result, w.result)
	}
}

func TestDebianPackages(t *testing.T) {
	require.Equal(t, "postgresql", debianPackage("initdb"))
	require.Equal(t, "procps", debianPackage("ps"))
	require.Equal(t, "pgbouncer", debianPackage("pgbouncer"))
}
