package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a connection that always has bytes to read, after a pause.
type endless struct {
	net.Conn
	pause time.Duration
}

func (e endless) Read(p []byte) (int, error) {
	time.Sleep(e.pause)
	return len(p), nil
}

// one is a listener whose Accept always returns the same connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// fill takes all places until the returned function is called.
func fill(places chan struct{}) (empty func()) {
	for range cap(places) {
		places <- struct{}{}
	}
	return func() {
		for range cap(places) {
			<-places
		}
	}
}

// closed reports whether a channel is closed.
func closed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestReadersYield checks that a reader of many bytes waits for its turn, and that one of few bytes
// or of a slow client does not.
func TestReadersYield(t *testing.T) {
	tests := []struct {
		name        string
		reads, size int
		pause       time.Duration
		yields      bool
	}{
		{"one small request", 1, 300, 0, false},
		{"a few small requests", 10, 300, 0, false},
		{"one large record", 1, yieldAfter, 0, true},
		{"a body in pieces", 8, 2 << 10, 0, true},
		{"many tiny records", yieldAfter / readCost, 1, 0, true},
		{"a small request now and then", 1000, 300, hasWaited, false},
		{"large records of a slow client", 2, yieldAfter, hasWaited, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newYieldingListener(one{conn: endless{pause: tt.pause}})
				empty := fill(l.readers)
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					buffer := make([]byte, tt.size)
					for range tt.reads {
						if n, err := c.Read(buffer); n != tt.size || err != nil {
							t.Errorf("Read returned %d, %v, want %d", n, err, tt.size)
						}
					}
				}()
				time.Sleep(time.Duration(tt.reads+1) * tt.pause)
				synctest.Wait()
				if yields := !closed(done); yields != tt.yields {
					t.Errorf("the reader yields: %t, want %t", yields, tt.yields)
				}
				empty()
				<-done
			})
		})
	}
}

// TestHandshakesComputeInTurn checks that a handshake waits for its turn before it computes, and
// gives it back whatever its client does.
func TestHandshakesComputeInTurn(t *testing.T) {
	server := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	tests := []struct {
		name   string
		client func(net.Conn) // connects, and ends when the test ends the connection
	}{
		{"a client", func(c net.Conn) { _ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() }},
		{"no common version", func(c net.Conn) {
			_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}).Handshake()
		}},
		{"one that goes away", func(c net.Conn) {
			_ = tls.Client(mute{c}, &tls.Config{InsecureSkipVerify: true}).Handshake()
			c.Close()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				l := newYieldingListener(one{conn: near})
				empty := fill(l.handshakes)
				c, err := l.secure(server).Accept()
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = c.(*tls.Conn).Handshake()
					c.Close()
				}()
				go tt.client(far)
				synctest.Wait()
				if closed(done) {
					t.Error("the handshake has ended without a turn")
				}
				empty()
				<-done
				if n := len(l.handshakes); n != 0 {
					t.Errorf("%d turns are taken after the end of the connection", n)
				}
				far.Close()
			})
		})
	}
}

// mute is a connection whose client does not read.
type mute struct{ net.Conn }

func (mute) Read([]byte) (int, error) { return 0, io.EOF }

// selfSigned returns a certificate.
func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
