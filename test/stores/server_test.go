package stores

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/doctor"

	"k8s.io/client-go/rest"
)

// server is this version of Kapok, on the store of another one.
type server struct {
	*kapok.Server
	client *http.Client
}

// open starts a server with the API versions of kapok up. Its tasks are off: they delete expired
// events, for example.
func (a archive) open(t *testing.T, dir string) *server {
	t.Helper()
	s, err := kapok.Start(t.Context(), kapok.Options{
		DataDir: dir, UnsafeNoFsync: true, EncryptionConfig: a.encryption(), V1beta1CRDs: true, Housekeeping: []string{"-*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &server{s, client}
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// do sends a request that must succeed, and returns the response.
func (s *server) do(t *testing.T, method, path, mediaType, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, "http://kapok"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
	return answer
}

// objects returns the items of the lists that were recorded.
func (s *server) objects(t *testing.T, recorded objects) objects {
	t.Helper()
	all := objects{}
	for path := range recorded {
		var list struct{ Items []any }
		decode(t, bytes.NewReader(s.do(t, http.MethodGet, path, "", "")), &list)
		all[path] = list.Items
	}
	return all
}

// examine runs kapok doctor. Certificates expire with time, and a server without a socket does not
// renew them: what is found in pki does not count.
func (s *server) examine(t *testing.T) {
	t.Helper()
	var report doctor.Report
	decode(t, bytes.NewReader(s.do(t, http.MethodGet, "/kapok/v1/doctor", "", "")), &report)
	if report.Objects == 0 {
		t.Error("kapok doctor has found no objects")
	}
	for _, problem := range report.Problems {
		if !strings.HasPrefix(problem.Text, "pki/") {
			t.Errorf("kapok doctor: %v", problem)
		}
	}
}
