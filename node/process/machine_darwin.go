package process

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const supported = true

// machine returns the memory of this machine, and the size of the file system of a directory, in
// bytes.
func machine(dir string) (memory, disk int64) {
	if size, err := unix.SysctlUint64("hw.memsize"); err == nil {
		memory = int64(size)
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		disk = int64(fs.Blocks) * int64(fs.Bsize)
	}
	return memory, disk
}

func userID() int { return os.Getuid() }

// kernel returns the release of the kernel.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// diskUsage returns the space that a file takes, in bytes.
func diskUsage(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
