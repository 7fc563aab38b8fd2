package rule

import (
	"slices"
	"testing"
)

func TestRepeats(t *testing.T) {
	repeats := Repeats[string]()
	var got []bool
	for _, v := range []string{"a", "b", "a", "", "", "b"} {
		got = append(got, repeats(v))
	}
	if want := []bool{false, false, true, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
