//go:build unix

package instance

import (
	"io/fs"
	"os"
	"syscall"
)

// isTrusted reports whether a file belongs to this user or to root.
func isTrusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Uid == 0 || int(stat.Uid) == os.Getuid()
}
