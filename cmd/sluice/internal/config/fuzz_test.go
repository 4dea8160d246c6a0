package config_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/compose"
)

// FuzzParse looks for a text that is neither read nor refused in words, and for one
// that is read but makes no limiter.
func FuzzParse(f *testing.F) {
	for _, name := range []string{filepath.Join("testdata", "faults.yaml"), filepath.Join("..", "..", "..", "..", "examples", "limits.yaml")} {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{"", "rules:", "rules:\n- name: a\n  policy: |\n    gcra 1/s\n", "rules: [{name: a, policy: gcra 1/s, by: [ip, path]}]",
		"? rules\n: - {name: a, policy: gcra 1/s}", "&a *a", "--- |", "a: b: c", "\t", "%YAML", "!!map {}", "rules: [*a", "\"\\x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse("x", text)
		if err != nil {
			requireFaults(t, err)
			return
		}
		requireUsable(t, file)
	})
}

// requireUsable makes a limiter of the file, and has it decide.
func requireUsable(t *testing.T, file *config.File) {
	for _, r := range file.Rules {
		again, err := compose.ParsePolicy(r.Policy.String())
		require.NoError(t, err)
		require.Equal(t, r.Policy.String(), again.String()) // slots=1 and no slots are equal
		if len(r.By) > 0 {
			by, err := config.ParseFields(r.ByString())
			if err == nil { // a + may be part of the name of a header
				require.Equal(t, r.By, by)
			}
		}
	}
	rules, err := file.HTTPRules(1)
	require.NoError(t, err)
	limiter, err := compose.New(nil, rules...)
	require.NoError(t, err)
	d, err := limiter.Allow(t.Context(), &http.Request{Method: "GET", URL: &url.URL{Path: "/"}, RemoteAddr: "192.0.2.1:1", Header: http.Header{}})
	require.NoError(t, err)
	require.True(t, d.Allowed)
}
