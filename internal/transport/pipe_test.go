package transport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

// TestPipeCarries checks that all bytes arrive in order, for any sizes of reads and writes.
func TestPipeCarries(t *testing.T) {
	seed := seeds.Of(t)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		sent := make([]byte, 5*pipeBuffer)
		for i := range sent {
			sent[i] = byte(random.Uint32())
		}
		sizes := random.Perm(100)
		a, b := Pipe()
		go func() {
			rest := sent
			for i := 0; len(rest) > 0; i++ {
				n := min(len(rest), sizes[i%len(sizes)]*97)
				if k, err := a.Write(rest[:n]); k != n || err != nil {
					t.Errorf("wrote %d of %d bytes: %v", k, n, err)
				}
				rest = rest[n:]
			}
			a.Close()
		}()
		var got []byte
		for i := 0; ; i++ {
			p := make([]byte, 1+sizes[i%len(sizes)]*53)
			n, err := b.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%d bytes sent, %d received, and they differ", len(sent), len(got))
		}
	})
}

func TestPipeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		a.Write([]byte("left"))
		a.Close()
		a.Close()
		if data, err := io.ReadAll(b); err != nil || string(data) != "left" {
			t.Errorf("after the writer has closed: %q, %v", data, err)
		}
		for name, use := range map[string]func([]byte) (int, error){
			"read of the closed end": a.Read, "write to the closed end": a.Write, "write to the other": b.Write,
		} {
			if n, err := use([]byte("x")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
	})
}

// TestPipeWakes checks that a close of either end wakes readers and writers that wait.
func TestPipeWakes(t *testing.T) {
	full := bytes.Repeat([]byte("x"), 2*pipeBuffer)
	for _, tc := range []struct {
		name  string
		mine  bool // the waiting end is closed
		write bool
		n     int
		want  error
	}{
		{"reader, own close", true, false, 0, io.ErrClosedPipe},
		{"reader, other's close", false, false, 0, io.EOF},
		{"writer, own close", true, true, pipeBuffer, io.ErrClosedPipe},
		{"writer, other's close", false, true, pipeBuffer, io.ErrClosedPipe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := Pipe()
				wait := a.Read
				if tc.write {
					wait = a.Write
				}
				go func() {
					time.Sleep(time.Minute)
					if tc.mine {
						a.Close()
					} else {
						b.Close()
					}
				}()
				if n, err := wait(bytes.Clone(full)); n != tc.n || err != tc.want {
					t.Errorf("got %d, %v", n, err)
				}
			})
		})
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		defer a.Close()
		defer b.Close()
		full := make([]byte, pipeBuffer)
		begin := time.Now()
		expect := func(name string, after time.Duration, n int, err error) {
			t.Helper()
			if d := time.Since(begin); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || d != after {
				t.Errorf("%s: %d, %v after %v, want %v", name, n, err, d, after)
			}
		}
		a.SetReadDeadline(begin.Add(time.Minute))
		n, err := a.Read(full)
		expect("read", time.Minute, n, err)

		a.SetReadDeadline(time.Time{})
		b.Write([]byte("x"))
		if n, err := a.Read(full); n != 1 || err != nil {
			t.Errorf("after the removal of the deadline: %d, %v", n, err)
		}

		a.SetReadDeadline(begin.Add(2 * time.Minute))
		a.SetReadDeadline(begin.Add(3 * time.Minute)) // replaces the earlier one
		n, err = a.Read(full)
		expect("read, deadline moved", 3*time.Minute, n, err)

		a.Write(full)
		a.SetDeadline(begin.Add(4 * time.Minute))
		n, err = a.Write([]byte("x"))
		expect("write", 4*time.Minute, n, err)

		a.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Minute)
			a.SetReadDeadline(time.Unix(1, 0)) // as net/http aborts a read
		}()
		n, err = a.Read(full)
		expect("read, aborted", 5*time.Minute, n, err)
	})
}
