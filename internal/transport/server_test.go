package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTakenBack checks that a request that the client has cancelled before it begins is not
// handled.
func TestTakenBack(t *testing.T) {
	g := &gate{handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
}
