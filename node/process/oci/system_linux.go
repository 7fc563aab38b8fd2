package oci

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncSystem writes the file system of a file to the disk.
func syncSystem(f *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))) }

// lockFile locks a file as long as it is open.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// usage returns the percentage of a file system that is in use.
func usage(dir string) (percent int, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	if s.Blocks == 0 {
		return 0, nil
	}
	return int((s.Blocks - s.Bavail) * 100 / s.Blocks), nil
}
