package servers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes puts a server into its own process group, so that an interrupt at the terminal ends the
// test first. The kernel kills the server if the test binary dies.
func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner, Pdeathsig: syscall.SIGKILL}
}

// descendants returns the children of a process and their descendants. The children of PostgreSQL have
// their own sessions, so a signal to the process group does not reach them.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // "pid (name) state parent ..."; the name may contain any character
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue // the process has just ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		parent, _ := strconv.Atoi(string(fields[1]))
		children[parent] = append(children[parent], child)
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
