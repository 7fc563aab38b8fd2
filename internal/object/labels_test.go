package object

import "testing"

// TestAbsentLabel checks that a label that does not exist has no value, whichever labels come
// before and after it.
func TestAbsentLabel(t *testing.T) {
	for _, l := range []Labels{"", `{"a":"1"}`, `{"c":"3"}`, `{"a":"1","c":"3"}`, `{"a\u0001":"1","c":"3"}`} {
		if value := l.Get("b"); value != "" || l.Has("b") {
			t.Errorf("%s: the label b has the value %q", l, value)
		}
	}
}
