package main

import (
	"net"
	"syscall"
)

// accepts reports whether a socket accepts connections. Package net also makes a listener of one
// that is connected, or only bound.
func accepts(l *net.TCPListener) bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	listens, problem := 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		listens, problem = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	})
	return err == nil && problem == nil && listens != 0
}
