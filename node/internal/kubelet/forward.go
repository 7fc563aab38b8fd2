package kubelet

import (
	"context"
	"io"
	"net"
)

// AwaitOpen returns once the server has replied to the client that the stream of a port-forward is
// open: a write waits for that reply. An error before the reply resets a stream that client-go is
// still opening; its forwarder then leaks a goroutine, and so does the server if the connection
// ends.
func AwaitOpen(stream io.Writer) error {
	_, err := stream.Write(nil)
	return err
}

// Forward copies between the stream of a port-forward and the connection to the port, until the
// port has sent everything or ctx ends, and closes the connection. The copy to the port ends with
// the stream, which the caller closes.
func Forward(ctx context.Context, stream io.ReadWriter, port net.Conn) error {
	defer port.Close()
	stop := context.AfterFunc(ctx, func() { port.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(port, stream)
		if half, ok := port.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err := io.Copy(stream, port)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
