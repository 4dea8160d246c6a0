//go:build unix

package picture

import (
	"io/fs"
	"os"
	"syscall"
)

// setOwner gives a file the owner and the group of another, as far as the process may.
func setOwner(f *os.File, of fs.FileInfo) {
	if stat, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(-1, int(stat.Gid))
		_ = f.Chown(int(stat.Uid), -1)
	}
}
