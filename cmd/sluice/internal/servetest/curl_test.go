package servetest

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer is the response that curl -i prints.
type answer struct {
	*http.Response
	text string // the body
}

func curl(t *testing.T, args ...string) answer {
	t.Helper()
	command := exec.Command("curl", append([]string{"-sS", "-i", "--max-time", "90"}, args...)...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, "curl %s: %s (scripts/test.sh installs curl)", args, &stderr)
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(out))), nil)
	require.NoError(t, err, "%s", out)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return answer{r, string(body)}
}
