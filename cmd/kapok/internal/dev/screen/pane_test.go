package screen

import (
	"strconv"
	"testing"
)

// TestHistory checks that a history keeps the newest lines under their numbers.
func TestHistory(t *testing.T) {
	var h history
	for i := range 3*limit + 7 {
		h.add(line{text: strconv.Itoa(i)})
		if h.end() != i+1 || len(h.lines) > limit {
			t.Fatalf("after line %d, the end is %d of %d lines", i, h.end(), len(h.lines))
		}
	}
	if want := 2*limit + 7; h.first != want {
		t.Errorf("the first line is %d, want %d", h.first, want)
	}
	for n := h.first; n < h.end(); n++ {
		if got := h.at(n).text; got != strconv.Itoa(n) {
			t.Fatalf("line %d is %s", n, got)
		}
	}
}
