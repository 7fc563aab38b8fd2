package transport

import (
	"net"
	"testing"
	"testing/synctest"
)

// endless is a connection that always has bytes to read.
type endless struct{ net.Conn }

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// one is a listener whose Accept always returns the same connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// TestReadersYield checks that a reader of many bytes waits for its turn, and that one of few bytes
// does not.
func TestReadersYield(t *testing.T) {
	tests := []struct {
		name        string
		reads, size int
		yields      bool
	}{
		{"one small request", 1, 300, false},
		{"a few small requests", 10, 300, false},
		{"one large record", 1, yieldAfter, true},
		{"a body in pieces", 8, 2 << 10, true},
		{"many tiny records", yieldAfter / readCost, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newYieldingListener(one{conn: endless{}})
				for range cap(l.turns) {
					l.turns <- struct{}{} // other readers hold all turns
				}
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
				synctest.Wait()
				yields := true
				select {
				case <-done:
					yields = false
				default:
				}
				if yields != tt.yields {
					t.Errorf("the reader yields: %t, want %t", yields, tt.yields)
				}
				for range cap(l.turns) {
					<-l.turns
				}
				<-done
			})
		})
	}
}
