package endpoint

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchGrace checks when watches end: one after another within the grace period, but at least
// 200 in a second.
func TestWatchGrace(t *testing.T) {
	const ms = time.Millisecond
	for grace, want := range map[time.Duration][]time.Duration{
		0:           {0, 0, 0, 0},
		4 * ms:      {0, ms, 2 * ms, 3 * ms},
		time.Minute: {0, 5 * ms, 10 * ms, 15 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, func(o *Options) { o.WatchGrace = grace })
			c := s.client()
			ended := make(chan time.Duration)
			began := time.Now()
			for range want {
				w := s.watchStream(c, configMapPath+"?watch=1&resourceVersion=1")
				go func() {
					w.lines.ReadByte() // the stream has no events
					ended <- time.Since(began)
				}()
			}
			synctest.Wait()
			s.EndWatches()
			var got []time.Duration
			for range want {
				got = append(got, <-ended)
			}
			if !slices.Equal(got, want) {
				t.Errorf("with a grace period of %v, watches ended after %v, want %v", grace, got, want)
			}
		})
	}
}

// TestWatchGraceOfClient checks that a client that leaves does not wait for its turn.
func TestWatchGraceOfClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(o *Options) { o.WatchGrace = time.Minute })
		c := s.client()
		var streams []*clientStream
		for range 2 {
			streams = append(streams, s.watchStream(c, configMapPath+"?watch=1&resourceVersion=1"))
		}
		s.EndWatches()
		began := time.Now()
		for _, w := range streams {
			w.body.Close()
		}
		synctest.Wait()
		if left, took := s.watching.Load(), time.Since(began); left != 0 || took != 0 {
			t.Errorf("%d watches run %v after their clients have left", left, took)
		}
	})
}
