package accounts

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"
)

// TestTracking checks that the config map has the date of its creation, is created again after half
// an hour, and keeps any date.
func TestTracking(t *testing.T) {
	inBubble(t, func(r *rig) {
		tracking := StartTracking(t.Context(), r.store, r.Logger)
		defer func() { tracking.Close() }()
		today := func() string { return time.Now().UTC().Format(time.DateOnly) }
		since := func() string {
			t.Helper()
			synctest.Wait()
			o, _ := r.state.Get(trackingKey())
			if o == nil {
				return ""
			}
			tree, err := o.Tree()
			if err != nil {
				t.Fatal(err)
			}
			data, _ := tree["data"].(resource.Tree)
			text, _ := data["since"].(string)
			return text
		}
		about := func() *resource.Request {
			t.Helper()
			request, err := request(r.store, configMaps, "kube-system", trackingName, "test")
			if err != nil {
				t.Fatal(err)
			}
			return request
		}
		set := func(data any) {
			t.Helper()
			_, err := r.store.Edit(t.Context(), about(), func(live resource.Tree) error {
				live["data"] = data
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		remove := func() {
			t.Helper()
			if _, err := r.store.Delete(t.Context(), about(), nil); err != nil {
				t.Fatal(err)
			}
		}
		first := today()
		if got := since(); got != first {
			t.Errorf("at the start: %q, want %q", got, first)
		}
		remove()
		time.Sleep(trackingPause - time.Second)
		if got := since(); got != "" {
			t.Errorf("deleted, before half an hour has passed: %q", got)
		}
		time.Sleep(time.Second)
		if got := since(); got != today() {
			t.Errorf("deleted, after half an hour: %q", got)
		}
		time.Sleep(24 * time.Hour)
		if got := since(); got != first {
			t.Errorf("on the next day: %q, want %q", got, first)
		}
		for _, bad := range []any{resource.Tree{"since": "never", "x": "y"}, resource.Tree{"x": "y"}, nil} {
			set(bad)
			if got := since(); got != today() {
				t.Errorf("instead of %v: %q, want %q", bad, got, today())
			}
		}
		set(resource.Tree{"since": "2020-02-02"})
		if got := since(); got != "2020-02-02" {
			t.Errorf("another date became %q", got)
		}
		tracking.Close()
		tracking = StartTracking(t.Context(), r.store, r.Logger)
		if got := since(); got != "2020-02-02" {
			t.Errorf("after a restart: %q", got)
		}
		remove()
		if got := since(); got != today() {
			t.Errorf("deleted, and never made by this server: %q", got)
		}
	})
}
