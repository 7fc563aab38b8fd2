package seeds

import "testing"

func TestOf(t *testing.T) {
	t.Run("fixed", func(t *testing.T) {
		t.Setenv(Variable, "")
		if a, b := Of(t), Of(t); a != b || a != 1333066329 {
			t.Errorf("seeds %d and %d, want 1333066329 twice", a, b)
		}
	})
	t.Run("chosen", func(t *testing.T) {
		t.Setenv(Variable, "42")
		if seed := Of(t); seed != 42 {
			t.Errorf("seed %d, want 42", seed)
		}
	})
	t.Run("random", func(t *testing.T) {
		t.Setenv(Variable, "random")
		if a, b := Of(t), Of(t); a == b {
			t.Errorf("seed %d twice", a)
		}
	})
}
