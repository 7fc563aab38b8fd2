package endpoint

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a client that reads nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	waits chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.waits
	return s.ResponseRecorder.Write(b)
}

// TestListsWaitOutsideOfTheLane has more lists under way than the lane has places, with clients
// that do not read: another list is served. At the end the lane is empty.
func TestListsWaitOutsideOfTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		for _, name := range []string{"a", "b", "c"} {
			if w := s.do("POST", configMapPath, configMap(name, "")); w.Code != http.StatusCreated {
				t.Fatal(w.Code, w.Body)
			}
		}
		waits := make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{}, 100)
		for i := range 3 * int(s.lane.Total()) {
			within := t.Context()
			if i%2 == 0 {
				within = ctx
			}
			r := httptest.NewRequestWithContext(within, "GET", configMapPath, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Accept", []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}[i%3])
			go func() {
				defer func() { recover(); done <- struct{}{} }()
				s.ServeHTTP(&stuck{httptest.NewRecorder(), waits}, r)
			}()
		}
		synctest.Wait()
		if s.lane.Used() != 0 {
			t.Errorf("%d places are taken by lists that wait for their clients", s.lane.Used())
		}
		if w := s.do("GET", configMapPath, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"c"`) {
			t.Errorf("beside unread lists: %d %s", w.Code, w.Body)
		}
		leave()
		close(waits)
		for range 3 * int(s.lane.Total()) {
			<-done
		}
		if s.lane.Used() != 0 {
			t.Errorf("%d places are left taken", s.lane.Used())
		}
	})
}

// TestLaneOfThoseWhoLeave ends the wait for a place when the client disconnects.
func TestLaneOfThoseWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		for range s.lane.Total() {
			s.lane.Try(fmt.Sprint(s.lane.Used()), 1)
		}
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", configMapPath, io.NopCloser(strings.NewReader("")))
		r.Header.Set("Authorization", "Bearer "+token)
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			s.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		leave()
		if reason := <-ended; reason != http.ErrAbortHandler {
			t.Errorf("ended with %v", reason)
		}
	})
}

// TestDeletionsAreNotRefused deletes a collection while no other list may wait: a completed
// deletion is not reported as an error.
func TestDeletionsAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.must(http.StatusCreated, "POST", configMapPath, configMap("a", ""))
		for n := range s.lane.Total() {
			s.lane.Try(fmt.Sprint(n), 1)
		}
		s.unread.Try("others", s.unread.Total())
		if w := s.do("GET", configMapPath, ""); w.Code != http.StatusTooManyRequests {
			t.Errorf("a list that may not wait: %d %s", w.Code, w.Body)
		}
		go func() {
			time.Sleep(time.Second)
			s.lane.Release("0", 1)
		}()
		if w := s.do("DELETE", configMapPath, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"a"`) {
			t.Errorf("a deletion: %d %s", w.Code, w.Body)
		}
	})
}
