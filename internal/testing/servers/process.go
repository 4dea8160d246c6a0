package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const loopback = "127.0.0.1"

// maxWait is how long a server may take to start or to stop. It is long, for busy machines.
const maxWait = 2 * time.Minute

// Process is the process of a server. A test can end and pause it, and start it again with the same
// data, port and socket. The methods are safe for concurrent use. A method does nothing if it does not
// apply, for instance Kill after the process has ended.
type Process struct {
	port  int
	dir   string // it is removed at the end
	owner *syscall.Credential
	argv  []string // the full path of the program, and its arguments
	ready string   // the log has this text when the server is ready

	mu    sync.Mutex
	pid   int
	ended chan struct{} // closed after the process has ended; nil before the first start
}

// create starts a program for the first time, in a directory of its own and on a free port. configure
// sets the arguments and writes the files. The ports are below the kernel's range for client
// connections, so that no client takes the port of a killed server.
func (p *Process) create(program, ready string, configure func() error) error {
	path, err := find(program)
	if err != nil {
		return err
	}
	if p.owner, err = unprivileged(); err != nil {
		return err
	}
	p.ready = ready
	for range 10 { // the program itself finds out whether the port is free
		p.port, p.argv = 10000+rand.IntN(10000), []string{path}
		if p.dir, err = newDir(p.owner); err == nil {
			err = configure()
		}
		if err == nil {
			err = p.start()
		}
		if err != nil {
			p.close()
		}
		if !isPortInUse(err) {
			break
		}
	}
	return err
}

// Addr returns the host and port of the server.
func (p *Process) Addr() string { return net.JoinHostPort(loopback, strconv.Itoa(p.port)) }

// Port returns the port of the server.
func (p *Process) Port() int { return p.port }

// Start starts a server that was stopped or killed. It returns when the server is ready. An error
// contains the end of the server's log.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for deadline := time.Now().Add(maxWait); ; time.Sleep(50 * time.Millisecond) {
		err := p.start()
		// The kernel may not have released the port or the memory of the previous process yet.
		isTransient := isPortInUse(err) || err != nil && strings.Contains(err.Error(), "shared memory block")
		if !isTransient || time.Now().After(deadline) {
			return err
		}
	}
}

func isPortInUse(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ddress already in use")
}

func (p *Process) start() error {
	if p.isRunning() {
		return nil
	}
	if err := p.launch(); err != nil {
		return err
	}
	name := filepath.Base(p.argv[0])
	err := waitUntil(name+" is ready", func() bool { return !p.isRunning() || strings.Contains(p.Log(), p.ready) })
	switch {
	case !p.isRunning():
		err = fmt.Errorf("servers: %s ended during its start", name)
	case err == nil:
		return nil
	default:
		p.kill()
	}
	return fmt.Errorf("%w; the end of its log:\n%s", err, p.Log())
}

func (p *Process) isRunning() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.ended != nil
	}
}

// launch starts the program from a thread that ends after the program. For Pdeathsig, the kernel treats
// the end of the thread that started the program as the end of its parent.
func (p *Process) launch() error {
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := p.command(p.argv...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(p.owner)
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
		return err
	}
	p.pid, p.ended = cmd.Process.Pid, ended
	return nil
}

// command returns a command in the directory of the server. Its environment omits variables that
// configure servers, such as PGDATA and PGPORT.
func (p *Process) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return cmd
}

// waitUntil waits until condition is true.
func waitUntil(what string, condition func() bool) error {
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return fmt.Errorf("servers: after %v, it is still not true that %s", maxWait, what)
}

// ifRunning calls do if the process is running.
func (p *Process) ifRunning(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isRunning() {
		do()
	}
}

// Stop ends the server in an orderly way, so that it saves its data.
func (p *Process) Stop() {
	p.ifRunning(func() {
		p.signalAll(syscall.SIGCONT)
		signal(p.pid, syscall.SIGINT) // after SIGTERM, PostgreSQL would wait until all clients disconnect
		select {
		case <-p.ended:
		case <-time.After(maxWait):
			p.kill()
		}
	})
}

// Kill ends the server and all its children at once, with SIGKILL.
func (p *Process) Kill() { p.ifRunning(p.kill) }

// kill stops the parent first, so that it starts no more children. It does not stop those: if the test is killed meanwhile, stopped ones
// would never notice that their parent is dead.
func (p *Process) kill() {
	signal(p.pid, syscall.SIGSTOP)
	p.signalAll(syscall.SIGKILL)
	<-p.ended
}

// Pause stops the server and all its children with SIGSTOP. Connections stay open, and the kernel
// accepts new ones, but the server does not answer.
func (p *Process) Pause() { p.ifRunning(p.pause) }

// pause stops the parent first, so that it starts no more children.
func (p *Process) pause() {
	signal(p.pid, syscall.SIGSTOP)
	p.signalAll(syscall.SIGSTOP)
}

// Resume continues a paused server.
func (p *Process) Resume() { p.ifRunning(func() { p.signalAll(syscall.SIGCONT) }) }

// signalAll signals the children before their parent, because children of a dead parent are not found.
func (p *Process) signalAll(sig syscall.Signal) {
	for _, pid := range append(descendants(p.pid), p.pid) {
		signal(pid, sig)
	}
}

// descendants returns the children of a process and their descendants. The children of PostgreSQL have
// their own sessions, so a signal to the process group does not reach them.
func descendants(pid int) (found []int) {
	children := map[int][]int{}
	list, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	for line := range strings.Lines(string(list)) {
		var child, parent int
		_, _ = fmt.Sscan(line, &child, &parent) // ps prints two numbers
		children[parent] = append(children[parent], child)
	}
	found = children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// signal sends a signal to a process that this package started, or to a child of it. It ignores the
// error for a process that has just ended.
func signal(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }

func (p *Process) logPath() string { return filepath.Join(p.dir, "log") }

// Log returns the end of the server's log since the last start, at most 8 KiB.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	const limit = 8 << 10
	return string(text[max(0, len(text)-limit):])
}

func (p *Process) close() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}

// newDir creates the directory of a server, which only its owner may read. Its path is short, because
// the path of a Unix socket has at most 107 bytes, and all users may enter its parent. The temporary
// directory of the test guarantees neither.
func newDir(owner *syscall.Credential) (string, error) {
	dir, err := os.MkdirTemp("/tmp", fmt.Sprintf("sluice-%d-", os.Getpid()))
	if err != nil {
		return "", err
	}
	return dir, os.Chown(dir, int(owner.Uid), int(owner.Gid))
}

// writeFile writes a file that only the server may read. name is relative to its directory.
func (p *Process) writeFile(name, text string) error {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Chown(path, int(p.owner.Uid), int(p.owner.Gid))
}

// unprivileged returns the user of all servers: another user if this process runs as root, because
// PostgreSQL and PgBouncer refuse to run as root.
func unprivileged() (*syscall.Credential, error) {
	if uid := os.Geteuid(); uid != 0 {
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(os.Getegid()), NoSetGroups: true}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			var c syscall.Credential
			_, err := fmt.Sscan(found.Uid+" "+found.Gid, &c.Uid, &c.Gid)
			return &c, err
		}
	}
	return nil, fmt.Errorf("servers: PostgreSQL refuses to run as root, and there is neither a user \"postgres\" nor a user \"nobody\" to run it as; create one")
}
