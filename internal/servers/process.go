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

// patience is how long a server may take to start or to stop: a great deal more
// than it needs, for the sake of a busy machine.
const patience = 30 * time.Second

// A Process is a server's process, which a test can end, freeze and start again
// on the same data, port and socket. Its methods may be called at any time from
// any goroutine; what does not apply (killing what is dead) does nothing.
type Process struct {
	dir      string   // its own, removed at the end
	argv     []string // the program, by its full path, and its arguments
	owner    *syscall.Credential
	ready    func(pid int) bool
	goodbye  syscall.Signal // asks for an orderly end
	mu       sync.Mutex
	instance *instance // the last one started, maybe dead; nil before the first
}

// An instance is one life of a process.
type instance struct {
	pid  int
	dead chan struct{} // closed when the process has ended and was waited for
}

func (i *instance) alive() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.dead:
		return false
	default:
		return true
	}
}

// Start starts a server that was stopped or killed, and returns when it
// answers. The error holds the end of the server's log.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline := time.Now().Add(patience)
	for {
		err := p.startOnce()
		if err == nil || !passing(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// begin is the first start. It fails at once on a port that is taken, so that
// another can be tried.
func (p *Process) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startOnce()
}

// passing tells an obstacle that goes away: something of the previous instance
// that the kernel has not cleared away yet.
func passing(err error) bool {
	return portTaken(err) || strings.Contains(err.Error(), "shared memory block")
}

func portTaken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ddress already in use")
}

func (p *Process) startOnce() error {
	if p.instance.alive() {
		return nil
	}
	begun := p.logSize()
	instance, err := p.launch()
	if err != nil {
		return err
	}
	p.instance = instance
	if err := p.await(); err != nil {
		p.kill()
		return fmt.Errorf("%s %w; its log ends:\n%s", filepath.Base(p.argv[0]), err, p.logFrom(begun))
	}
	return nil
}

// launch starts the program from a thread that outlives it: the kernel takes
// the death of the thread that forked for the death of the parent.
func (p *Process) launch() (*instance, error) {
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := p.command(log)
	started, dead := make(chan error), make(chan struct{})
	go func() {
		defer close(dead)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		log.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how a server ends, often by our signal, tells nothing
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &instance{cmd.Process.Pid, dead}, nil
}

func (p *Process) command(log *os.File) *exec.Cmd {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(p.owner)
	return cmd
}

// environment leaves out what would steer a server elsewhere: PGDATA, PGPORT.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

func (p *Process) await() error {
	instance := p.instance
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if !instance.alive() {
			return errors.New("ended while it started")
		}
		if p.ready(instance.pid) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("did not answer within %v", patience)
}

// Stop ends the server in good order: what it should keep, it has kept.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.instance.alive() {
		return
	}
	p.resume()
	signal(p.instance.pid, p.goodbye)
	select {
	case <-p.instance.dead:
	case <-time.After(patience):
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
	if !p.instance.alive() {
		return
	}
	children := p.pause()
	signal(p.instance.pid, syscall.SIGKILL)
	for _, pid := range children {
		signal(pid, syscall.SIGKILL)
	}
	<-p.instance.dead
}

// Pause freezes the server and all its children with SIGSTOP: connections stay
// open, the kernel still accepts new ones, and nothing is answered.
func (p *Process) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance.alive() {
		p.pause()
	}
}

// pause stops the parent first, which then has no more children.
func (p *Process) pause() []int {
	signal(p.instance.pid, syscall.SIGSTOP)
	children := descendants(p.instance.pid)
	for _, pid := range children {
		signal(pid, syscall.SIGSTOP)
	}
	return children
}

// Resume lets a paused server go on.
func (p *Process) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance.alive() {
		p.resume()
	}
}

func (p *Process) resume() {
	for _, pid := range descendants(p.instance.pid) {
		signal(pid, syscall.SIGCONT)
	}
	signal(p.instance.pid, syscall.SIGCONT)
}

// signal reaches a process that this package started, or its child. One that
// has just ended is no error.
func signal(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }

// Log is what the server has said last, at most 8 KiB of it.
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
	const most = 8 << 10
	return string(text[min(len(text), max(start, len(text)-most)):])
}

func (p *Process) close() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}
