package stores

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"":                       ": want memory:, sqlite:FILE, postgres://... or redis://...",
		"mysql://u:secret@h":     "mysql://u:xxxxx@h: want memory:",
		"memory:x":               "the store memory: takes no name",
		"sqlite:":                "want a file name, such as sqlite:limits.db",
		"sqlite://limits.db":     "want a file name without parameters",
		"sqlite:a.db?mode=ro":    "want a file name without parameters",
		"redis:":                 "want memory:",
		"limits.db":              "limits.db: want memory:",
		"redis:u:secret@h":       "...: want memory:",
		"host=h password=secret": "...: want memory:",

		"postgres://u:1/secret@h/x": "postgres://...: the address has more than one @; in a password, write / as %2F and @ as %40",
		"postgres://u:1@secret@h/x": "the address has more than one @",

		"redis://h/0;password=secret":      "redis://...: the name has a semicolon; write parameters after a ? with & between",
		"postgres://u@h/d;password=secret": "postgres://...: the name has a semicolon",
	} {
		err := check(address)
		require.ErrorContains(t, err, want, address)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestAddressIsRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://u:p@h:1,i:2/d?sslmode=disable&Password=p": "postgres://u:xxxxx@h:1,i:2/d?xxxxx",
		"postgres://u@h/d?p":                           "postgres://u@h/d?xxxxx",
		"postgres://u@h/d?user=a@b":                    "postgres://...",
		"rediss://:p@h:1/2?dial_timeout=3s&password=p": "rediss://:xxxxx@h:1/2?xxxxx",
		"redis://h/0?db=1;password=p":                  "redis://h/0?xxxxx",
		"redis://h":                                    "redis://h",
		"sqlite:a=b":                                   "sqlite:a=b",
		"memory:":                                      "memory:",
	} {
		require.Equal(t, want, redacted(address))
	}
}
