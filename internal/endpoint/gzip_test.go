package endpoint

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/test/seeds"
)

// TestUnreadGzipHoldsNoSeat sends a compressed list to a client that does not read.
func TestUnreadGzipHoldsNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true}})
		s := newServer(t, func(o *Options) { o.Limiter = limiter })
		random, letters := rand.New(rand.NewPCG(seeds.Of(t), 0)), make([]byte, 50_000)
		for i := range letters {
			letters[i] = byte('a' + random.IntN(26))
		}
		for i := range 6 {
			s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), fmt.Sprintf(`,"data":{"a":%q}`, letters)))
		}
		waits := make(chan struct{})
		done := make(chan any)
		r := httptest.NewRequestWithContext(t.Context(), "GET", configMapPath, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		go func() {
			defer func() { done <- recover() }()
			s.ServeHTTP(&stuck{w, waits}, r)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := limiter.InFlight(); n != 0 {
			t.Errorf("%d seats are taken by an answer that is not read", n)
		}
		close(waits)
		if reason := <-done; reason != nil {
			t.Fatal(reason)
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || string(got) != s.do("GET", configMapPath, "").Body.String() {
			t.Errorf("%v, %d bytes", err, len(got))
		}
	})
}
