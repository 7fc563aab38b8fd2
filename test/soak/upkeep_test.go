//go:build linux

package soak

import (
	"cmp"
	"flag"
	"strings"
	"syscall"
	"testing"
	"time"
)

var old = flag.String("old", "", "an earlier kapok, which TestUpkeep upgrades; default: the one of this module")

// TestUpkeep serves clients while everything happens that happens to a server in a year: its
// certificate, tokens and keys of encryption are replaced, with -soak each minute, and in the
// middle it is upgraded. A client that tries again after errors of the connection sees no other
// error, and every object is as it was written last.
func TestUpkeep(t *testing.T) {
	period, half := time.Duration(0), 500*time.Millisecond
	if *soak > 0 {
		period, half = min(time.Minute, *soak/10), *soak/2
	}
	dir := t.TempDir()
	files := newFiles(t)
	p := launch(t, cmp.Or(*old, kapok), dir, files.flags()...)
	address := p.config.Host

	u := newUsers(t, address, files)
	informed := u.inform()
	u.begin()

	live := func() {
		end := time.After(half)
		for {
			var rotate <-chan time.Time
			if period > 0 {
				rotate = time.After(period)
			}
			select {
			case <-rotate:
				files.rotate()
				p.until(t, "it serves the new certificate", files.served(address))
				u.check(files)
				files.handOut()
			case <-p.done:
				t.Fatalf("the server ended by itself: %v\n%s", p.ProcessState, &p.out)
			case <-end:
				return
			}
		}
	}
	live()
	files.rotate() // the server that starts next reads the files
	p.end(t, syscall.SIGTERM)
	p = launch(t, kapok, dir, append(files.flags(), "--listen="+strings.TrimPrefix(address, "https://"))...)
	p.until(t, "it serves the new certificate", files.served(address))
	u.check(files)
	files.handOut()
	live()
	u.end()
	u.verify(informed)
	t.Log(u)
	p.end(t, syscall.SIGTERM)
}
