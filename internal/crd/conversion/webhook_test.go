package conversion

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/crd/conversion/hooktest"
	"github.com/kapok-dev/kapok/internal/webhook"
)

// TestTimeout checks that a slow webhook does not look like an exceeded deadline of the request,
// unless that deadline has passed.
func TestTimeout(t *testing.T) {
	hook := hooktest.Start(t, func(r *hooktest.Review) any { <-r.GaveUp; return 500 })
	hooks := &Webhooks{webhook.New(webhook.Options{Timeout: 30 * time.Millisecond}), NewMetrics()}
	defer hooks.Close()
	slow := hooks.New("foos.example.com", webhookConversion(hook, "v1"))
	_, err := slow.Convert(context.Background(), []Tree{parse(t, foo)}, "example.com/v1")
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), `conversion webhook for example.com/v2, Kind=Foo failed: Post "`+hook.URL) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err = slow.Convert(ctx, []Tree{parse(t, foo)}, "example.com/v1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestNoConversionNoCall checks that objects with nothing to convert need no webhook: this one does
// not exist.
func TestNoConversionNoCall(t *testing.T) {
	hooks := NewWebhooks(webhook.Options{})
	defer hooks.Close()
	w := hooks.New("foos.example.com", nil)
	got, err := w.Convert(context.Background(), []Tree{{"apiVersion": "example.com/v2", "kind": "Foo"}}, "example.com/v1")
	if err != nil || len(got) != 1 || got[0]["apiVersion"] != "example.com/v1" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := w.Convert(context.Background(), nil, "example.com/v1"); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := w.Convert(context.Background(), []Tree{parse(t, foo)}, "example.com/v1"); err == nil || err.Error() != "no supported conversion review versions" {
		t.Error(err)
	}
}
