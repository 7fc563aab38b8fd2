//go:build linux || darwin

package process

import (
	"testing"

	"github.com/kapok-dev/kapok/node/internal/proc"
)

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
