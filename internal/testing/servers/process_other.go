//go:build !linux

package servers

import "syscall"

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}
