//go:build linux || darwin

package process

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/node/internal/proc"

	"github.com/go-logr/logr"
)

// countingStore counts the collections.
type countingStore struct{ collections int }

func (*countingStore) Pull(context.Context, ImageRequest) (*Image, error) { return nil, ErrNotPresent }

func (s *countingStore) Collect(func(string) bool) error {
	s.collections++
	return nil
}

// TestCollectAtStart frees what a crash during a pull has left behind at once.
func TestCollectAtStart(t *testing.T) {
	store := &countingStore{}
	p, _ := newTestPods(t, Options{Store: store})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- (&collector{pods: p, log: logr.Discard()}).Start(ctx) }()
		synctest.Wait()
		if store.collections != 1 {
			t.Errorf("%d collections at the start, want 1", store.collections)
		}
		cancel()
		<-done
	})
}

// TestUsedImages checks which images are not collected: those of runs, whether they have ended or
// not, and those of programs that are prepared.
func TestUsedImages(t *testing.T) {
	p, queue := newTestPods(t, Options{})
	p.images.pulls[pullKey{"other", "c"}] = &pull{image: &Image{ID: "prepared"}}
	p.images.pulls[pullKey{"other", "d"}] = &pull{}
	for id, args := range map[string][]string{"runs": {"sleep", "3600"}, "ended": {"sleep", "0"}} {
		s := proc.Spec{ID: proc.ID{Pod: id, Container: "c"}, Path: "/bin/sleep", Args: args, Image: id}
		if _, err := p.runtime.Start(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for p.runtime.Runs("ended")[0].Exit == nil {
		request, _ := queue.Get() // when it has ended
		queue.Done(request)
	}
	uses := p.usesImage()
	for id, want := range map[string]bool{"prepared": true, "runs": true, "ended": true, "other": false} {
		if got := uses(id); got != want {
			t.Errorf("the image %s is in use: %t, want %t", id, got, want)
		}
	}
	if err := p.runtime.Remove("ended"); err != nil {
		t.Fatal(err)
	}
	if p.usesImage()("ended") {
		t.Error("the image of a pod that has been removed is in use")
	}
}
