package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxWait is how long a server may take to start or to stop. It is long, for busy machines.
const maxWait = 30 * time.Second

// Process is the process of a server. A test can end and pause it, and start it again with the same
// data, port and socket. The methods are safe for concurrent use. A method does nothing if it does not
// apply, for instance Kill after the process has ended.
type Process struct {
	dir        string   // it is removed at the end
	argv       []string // the full path of the program, and its arguments
	owner      *syscall.Credential
	ready      func(pid int) bool
	stopSignal syscall.Signal // requests an orderly end
	mu         sync.Mutex
	instance   *instance // the last one, which may have ended; nil before the first start
}

// instance is one run of a process.
type instance struct {
	pid   int
	ended chan struct{} // closed after the process has ended
}

func (i *instance) isRunning() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.ended:
		return false
	default:
		return true
	}
}

// Start starts a server that was stopped or killed. It returns when the server is ready. An error
// contains the end of the server's log.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline := time.Now().Add(maxWait)
	for {
		err := p.startOnce()
		if err == nil || !isTransient(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// firstStart starts the server for the first time. It fails at once if the port is in use, so that the
// caller can try another one.
func (p *Process) firstStart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startOnce()
}

// isTransient reports whether a start failed because the kernel has not released the port or the
// memory of the previous instance yet.
func isTransient(err error) bool {
	return isPortInUse(err) || strings.Contains(err.Error(), "shared memory block")
}

func isPortInUse(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ddress already in use")
}

func (p *Process) startOnce() error {
	if p.instance.isRunning() {
		return nil
	}
	logStart := p.logSize()
	instance, err := p.launch()
	if err != nil {
		return err
	}
	p.instance = instance
	if err := p.await(); err != nil {
		p.kill()
		return fmt.Errorf("%s %w; the end of its log:\n%s", filepath.Base(p.argv[0]), err, p.logFrom(logStart))
	}
	return nil
}

// launch starts the program from a thread that ends after the program. For Pdeathsig, the kernel treats
// the end of the thread that started the program as the end of its parent.
func (p *Process) launch() (*instance, error) {
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := p.command(log)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		log.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status does not matter
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &instance{cmd.Process.Pid, ended}, nil
}

func (p *Process) command(log *os.File) *exec.Cmd {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(p.owner)
	return cmd
}

// environment omits variables that configure servers, such as PGDATA and PGPORT.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

func (p *Process) await() error {
	instance := p.instance
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); {
		if !instance.isRunning() {
			return errors.New("ended during its start")
		}
		if p.ready(instance.pid) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("was not ready within %v", maxWait)
}

// Stop ends the server in an orderly way, so that it saves its data.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.instance.isRunning() {
		return
	}
	p.resume()
	signal(p.instance.pid, p.stopSignal)
	select {
	case <-p.instance.ended:
	case <-time.After(maxWait):
		p.kill()
	}
}

// Kill ends the server and all its children at once, with SIGKILL.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

func (p *Process) kill() {
	if !p.instance.isRunning() {
		return
	}
	children := p.pause()
	signal(p.instance.pid, syscall.SIGKILL)
	for _, pid := range children {
		signal(pid, syscall.SIGKILL)
	}
	<-p.instance.ended
}

// Pause stops the server and all its children with SIGSTOP. Connections stay open, and the kernel
// accepts new ones, but the server does not answer.
func (p *Process) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance.isRunning() {
		p.pause()
	}
}

// pause stops the parent first, so that it starts no more children.
func (p *Process) pause() []int {
	signal(p.instance.pid, syscall.SIGSTOP)
	children := descendants(p.instance.pid)
	for _, pid := range children {
		signal(pid, syscall.SIGSTOP)
	}
	return children
}

// Resume continues a paused server.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance.isRunning() {
		p.resume()
	}
}

func (p *Process) resume() {
	for _, pid := range descendants(p.instance.pid) {
		signal(pid, syscall.SIGCONT)
	}
	signal(p.instance.pid, syscall.SIGCONT)
}

// signal sends a signal to a process that this package started, or to a child of it. It ignores the
// error for a process that has just ended.
func signal(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }

// Log returns the end of the server's log, at most 8 KiB.
func (p *Process) Log() string { return p.logFrom(0) }

func (p *Process) logPath() string { return filepath.Join(p.dir, "log") }

func (p *Process) logSize() int {
	info, err := os.Stat(p.logPath())
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func (p *Process) logFrom(start int) string {
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	const limit = 8 << 10
	return string(text[min(len(text), max(start, len(text)-limit)):])
}

func (p *Process) close() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}
