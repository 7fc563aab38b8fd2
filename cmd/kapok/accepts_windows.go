package main

import "net"

// accepts reports whether a socket listens. There is no systemd on Windows.
func accepts(*net.TCPListener) bool { return true }
