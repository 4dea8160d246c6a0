package frontdoor

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer is what curl -i prints.
type answer struct {
	*http.Response
	text string // of the body
}

func curl(t *testing.T, args ...string) answer {
	t.Helper()
	command := exec.Command("curl", append([]string{"-sS", "-i", "--max-time", "90"}, args...)...)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	require.NoError(t, err, "curl %s: %s (scripts/test.sh installs curl)", args, &said)
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(out))), nil)
	require.NoError(t, err, "%s", out)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return answer{r, string(body)}
}
