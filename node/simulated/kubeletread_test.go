package simulated

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"
)

// failing is a Reader whose requests fail.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the server is stopping")
}

// TestKubeletRead checks that a pod which cannot be read is not taken for one that does not exist.
func TestKubeletRead(t *testing.T) {
	for _, path := range []string{"/containerLogs/default/web/c", "/exec/default/web/c?command=a&output=1", "/portForward/default/web"} {
		answer := httptest.NewRecorder()
		(&nodeKubelet{reader: failing{}, node: "node-0"}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if body := strings.TrimSpace(answer.Body.String()); answer.Code != http.StatusInternalServerError || body != `read pod "web": the server is stopping` {
			t.Errorf("%s: %d %q", path, answer.Code, body)
		}
	}
}
