//go:build unix

package main

import (
	"net"
	"syscall"
)

// accepts reports whether a socket listens. One that is connected, or bound alone, is a listener to
// package net, too.
func accepts(l *net.TCPListener) bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	listens, problem := 0, error(nil)
	if err := raw.Control(func(fd uintptr) {
		listens, problem = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	}); err != nil {
		return false
	}
	return problem != nil || listens != 0 // a system that cannot tell (macOS) is given the benefit of the doubt
}
