//go:build unix

package serve

import "syscall"

// setPrivate sets the mode of a socket. Linux creates its file with at most this mode.
func setPrivate(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }
