package manager

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// TestCheckPanics checks that a check that panics fails.
func TestCheckPanics(t *testing.T) {
	c := &checks{logger: logr.Discard()}
	if err := c.add("broken", func(*http.Request) error { panic("broken pipe") }); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/": "[-]broken failed: reason withheld", "/broken": "panic: broken pipe"} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
