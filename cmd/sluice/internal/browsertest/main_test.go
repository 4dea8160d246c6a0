package browsertest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the screenshots of the documentation")

// scratch is the directory of the program and of the browser's profile.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "browsertest"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if stopBrowser != nil {
		stopBrowser()
	}
	if shared != nil {
		shared.kill()
	}
	for range 100 { // the processes of the browser can still write files for a short time after its end
		if os.RemoveAll(scratch) == nil {
			break
		}
	}
	return code
}

// need skips the test if Chromium is missing.
func need(t testing.TB) {
	t.Helper()
	var fault error
	switch {
	case testing.Short():
		fault = errors.New("tests with a browser do not run with -short")
	case chromium() == "":
		fault = errors.New("chromium is missing; scripts/test.sh installs it, or on Debian: apt-get install chromium")
	default:
		return
	}
	if os.Getenv("SLUICE_REQUIRE_SERVERS") != "" && !testing.Short() {
		t.Fatal(fault)
	}
	t.Skip(fault)
}

// chromium returns the path of the browser; empty if there is none.
func chromium() string {
	for _, name := range [...]string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// binary builds the program once, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sluice")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "../.." // the module of the command
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// sluice runs the program, and returns its output.
func sluice(t testing.TB, args ...string) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

var stopBrowser func()

// startBrowser starts the browser that all tests share. Each test has a tab of its own.
var startBrowser = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium()),
		chromedp.UserDataDir(filepath.Join(scratch, "profile")),
		chromedp.WindowSize(1280, 900),
		chromedp.DisableGPU,
		chromedp.Flag("disable-features", "SpareRendererForSitePerProcess,Translate"),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox refuses root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	stopBrowser = func() {
		_ = chromedp.Cancel(ctx) // waits for its end
		stop()
		stopAllocator()
	}
	return ctx, chromedp.Do(ctx)
})

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

var shared *program

var startShared = sync.OnceValue(func() (err error) {
	shared, err = start("127.0.0.1:0")
	return err
})

// pageAddress returns the address of a page that all tests share.
func pageAddress(t testing.TB) string {
	t.Helper()
	require.NoError(t, startShared())
	return shared.address
}
