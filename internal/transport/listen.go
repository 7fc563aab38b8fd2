package transport

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Listen listens on a TCP address, HOST:PORT. share is ServingOptions.SharePort.
func Listen(address string, share bool) (net.Listener, error) {
	var c net.ListenConfig
	if share {
		c.Control = func(_, _ string, conn syscall.RawConn) error {
			var failed error
			err := conn.Control(func(fd uintptr) { failed = sharePort(fd) })
			return errors.Join(err, failed)
		}
	}
	return c.Listen(context.Background(), "tcp", address)
}
