package servers

import "syscall"

// attributes puts a server into its own process group, so that an interrupt at the terminal ends the
// test first. The kernel kills the server if the test binary dies.
func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner, Pdeathsig: syscall.SIGKILL}
}
