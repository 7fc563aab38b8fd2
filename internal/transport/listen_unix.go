//go:build aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd

package transport

import "golang.org/x/sys/unix"

// sharePort sets SO_REUSEPORT of a socket.
func sharePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
