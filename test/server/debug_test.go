package server_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestDebug checks that the paths below /debug/ are served only if there is a handler, and only to
// users who are permitted to get them.
func TestDebug(t *testing.T) {
	get := func(server *kapok.Server, user string) (code int, body string) {
		config := rest.CopyConfig(server.Config())
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		}
		result := kubernetes.NewForConfigOrDie(config).Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Do(t.Context()).StatusCode(&code)
		text, _ := result.Raw()
		return code, string(text)
	}
	server := runWith(t, kapok.Options{Debug: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "profile of "+r.URL.Path)
	})})
	if code, body := get(server, ""); code != http.StatusOK || body != "profile of /debug/pprof/heap" {
		t.Errorf("admin: %d %s", code, body)
	}
	if code, body := get(server, "jane"); code != http.StatusForbidden {
		t.Errorf("a user without rights: %d %s", code, body)
	}
	if code, _ := get(runWith(t, kapok.Options{}), ""); code != http.StatusNotFound {
		t.Errorf("without a handler: %d", code)
	}
}
