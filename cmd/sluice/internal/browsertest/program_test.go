package browsertest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a running "sluice compare".
type program struct {
	cmd     *exec.Cmd
	address string // that the program prints
}

// start starts "sluice compare" and returns when it listens.
func start(listen string, args ...string) (*program, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(path, append([]string{"compare", "--listen", listen}, args...)...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("%s printed no address: %w", p.cmd, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	p.address = strings.TrimSpace(line)
	return p, nil
}

// kill ends the program.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

var (
	shared     *program
	shareOnce  sync.Once
	shareFault error
)

// pageAddress returns the address of a page that all tests share.
func pageAddress(t testing.TB) string {
	t.Helper()
	shareOnce.Do(func() { shared, shareFault = start("127.0.0.1:0") })
	require.NoError(t, shareFault)
	return shared.address
}
