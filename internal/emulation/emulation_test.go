package emulation

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Release{"": Newest, "1.34": 34, "1.36": 36, "1.37": 37, "kube=1.35": 35} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1.33", "1.38", "1", "1.", "2.36", "1.36.0", "v1.36", "1.036", "1.+36", "kube=", "kube=kube=1.36", "other=1.36", " 1.36", "latest"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "want 1.34, 1.35, 1.36 or 1.37") {
			t.Errorf("%q is %v, %v; want an error", text, got, err)
		}
	}
}

func TestString(t *testing.T) {
	for r := Oldest; r <= Newest; r++ {
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Errorf("%s is %v, %v", r, again, err)
		}
	}
}
