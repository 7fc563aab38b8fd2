package long

import "testing"

func TestOnly(t *testing.T) {
	for value, runs := range map[string]bool{"": false, "1": true} {
		t.Setenv(Variable, value)
		ran := false
		t.Run("value="+value, func(t *testing.T) {
			Only(t, "it depends on nothing")
			ran = true
		})
		if ran != runs {
			t.Errorf("with %s=%q it ran: %t", Variable, value, ran)
		}
	}
}
