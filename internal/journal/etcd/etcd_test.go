package etcd

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		opts Options
		want string
	}{
		{Options{}, "Endpoints is empty"},
		{Options{Endpoints: []string{"h:1"}, Connection: Connection{Prefix: "registry"}}, `prefix "registry"`},
		{Options{Endpoints: []string{"h:1"}, Connection: Connection{Prefix: "/registry/"}}, `prefix "/registry/"`},
	} {
		if _, err := Open(t.Context(), test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.opts, err, test.want)
		}
	}
	opts, err := Options{Endpoints: []string{"h:1"}}.withDefaults()
	if err != nil || opts.Prefix != "/registry" || opts.RequestTimeout != 5*time.Second || opts.DialTimeout != 10*time.Second || opts.Logger == nil || opts.Decode == nil {
		t.Errorf("%+v, error %v", opts, err)
	}
}

// TestOpenUnreachable checks that Open returns ErrUnavailable with the endpoints, and leaks no
// goroutine.
func TestOpenUnreachable(t *testing.T) {
	_, err := Open(t.Context(), Options{
		Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2"}, DialTimeout: 100 * time.Millisecond,
		RequestTimeout: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("open: %v", err)
	}
}
