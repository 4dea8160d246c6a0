//go:build !linux

package servers

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}

// descendants returns the children of a process and their descendants.
func descendants(pid int) []int {
	text, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	var found []int
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			found = append(found, child)
			found = append(found, descendants(child)...)
		}
	}
	return found
}
