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
		if child, parent, ok := parseStat(stat); ok {
			children[parent] = append(children[parent], child)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// parseStat reads "pid (name) state parent ...". The name may contain any character.
func parseStat(stat string) (pid, parent int, ok bool) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0, 0, false // the process has just ended
	}
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 2 {
		return 0, 0, false
	}
	pid, err = strconv.Atoi(filepath.Base(filepath.Dir(stat)))
	if err != nil {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return pid, parent, err == nil
}
