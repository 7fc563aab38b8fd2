package kubelet

import (
	"context"
	"io"
	"net"
)

// AwaitOpen waits until the client has been told that the stream of a port-forward is open: the
// first write waits for that. Without it, an early error resets a stream that client-go is still
// opening, after which a goroutine of its forwarder waits for ever, and one of the server too if
// the connection ends then.
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
