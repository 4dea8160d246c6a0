package servers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// witness notes what a test would have done.
type witness struct {
	T
	said string
}

func (w *witness) Helper()           {}
func (w *witness) Skip(args ...any)  { w.said = "skip: " + fmt.Sprint(args...) }
func (w *witness) Fatal(args ...any) { w.said = "fatal: " + fmt.Sprint(args...) }

func TestMissingProgramSkipsUnlessRequired(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	const line = "no-such-server is missing; scripts/test.sh installs it, or on Debian: apt-get install no-such-server"
	tests := []struct{ required, said string }{
		{"", "skip: " + line},
		{"1", "fatal: " + line},
	}
	for _, test := range tests {
		t.Setenv("SLUICE_REQUIRE_SERVERS", test.required)
		w := &witness{}
		need(w, "no-such-server")
		require.Equal(t, test.said, w.said)
	}
}

func TestPresentProgramsAreFound(t *testing.T) {
	need(t, PgBouncerPrograms)
	w := &witness{}
	need(w, PgBouncerPrograms)
	require.Empty(t, w.said)
}

func TestDebianNames(t *testing.T) {
	require.Equal(t, "postgresql", debian("initdb"))
	require.Equal(t, "pgbouncer", debian("pgbouncer"))
}
