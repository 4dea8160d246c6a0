package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func site(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	out, err := exec.Command("./site.sh", args...).CombinedOutput()
	return string(out), err
}

func TestSiteHasThePageAndTheWebAssembly(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips the build for WebAssembly")
	}
	dir := filepath.Join(t.TempDir(), "a site")
	out, err := site(t, dir)
	require.NoError(t, err, out)
	page := filepath.Join("..", "cmd", "sluice", "internal", "compare", "page")
	require.NoError(t, filepath.WalkDir(page, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(page, path)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, name))
		return nil
	}))
	require.FileExists(t, filepath.Join(dir, "wasm_exec.js"))
	program, err := os.ReadFile(filepath.Join(dir, "sluice.wasm"))
	require.NoError(t, err)
	require.Equal(t, "\x00asm", string(program[:4]))
	index, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(index), `<meta name="sluice-service" content="wasm">`)
	require.Contains(t, string(index), `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self';`)
	require.NotContains(t, string(index), `content="http"`)
}
