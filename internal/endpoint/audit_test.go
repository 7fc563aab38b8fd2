package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/audit"
)

// newAuditedServer returns a server that records the bodies of requests and responses in a file, if
// log is not empty, and a function that ends the audit.
func newAuditedServer(t testing.TB, log string) (s *server, end func()) {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = newServer(t)
	auditor, err := audit.New(audit.Options{PolicyFile: policy, LogPath: log}, s.log)
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Audit = auditor
	return s, func() {
		if err := auditor.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAuditedRefusalsLeaveTheLaneOnce rejects a list that has a place already, and records the
// error: the place is given back once.
func TestAuditedRefusalsLeaveTheLaneOnce(t *testing.T) {
	s, end := newAuditedServer(t, "")
	defer end()
	w := s.do("GET", configMapPath, "", "Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	if w.Code != http.StatusNotAcceptable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := s.lane.Used(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// TestAuditRecordsAnswersInJSON compares what is recorded of an answer of any encoding with the
// same answer in compact JSON, and the answer with that of a server without audit.
func TestAuditRecordsAnswersInJSON(t *testing.T) {
	// In a bubble time stands still: tables have the ages of objects.
	synctest.Test(t, testAuditRecordsAnswersInJSON)
}

func testAuditRecordsAnswersInJSON(t *testing.T) {
	const (
		table   = ";as=Table;g=meta.k8s.io;v=v1"
		partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		list    = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	)
	name := filepath.Join(t.TempDir(), "audit.log")
	s, end := newAuditedServer(t, name)
	auditor := s.opts.Audit
	s.opts.Audit = nil
	text := strings.Repeat("x", 1000)
	for i := range 600 { // the list of them is sent in pieces
		s.must(201, "POST", configMapPath, configMap(fmt.Sprintf("c%03d", i), `,"data":{"text":"`+text+`"}`))
	}
	s.must(201, "POST", widgetPath, widget("a", `,"spec":{"replicas":2,"size":3}`))

	wanted := map[string][]byte{} // by the ID of the event
	for _, path := range []string{
		configMapPath + "/c000?", configMapPath + "/none?", configMapPath + "?", configMapPath + "?limit=1", configMapPath + "?limit=x",
		widgetPath + "/a?", widgetPath + "/a/scale?", widgetPath + "?",
	} {
		for _, shape := range []string{"", table, partial, list} {
			for _, accept := range []string{contentTypeJSON + shape, contentTypeYAML + shape, contentTypeProtobuf + shape, "unknown/type"} {
				for _, pretty := range []string{"", "&pretty=1"} {
					id := strconv.Itoa(len(wanted))
					ask := func(accept, pretty string) (int, http.Header, []byte) {
						w := s.do("GET", path+pretty, "", "Accept", accept, "Accept-Encoding", "gzip", "Audit-ID", id)
						return w.Code, w.Header(), w.Body.Bytes()
					}
					code, header, body := ask(accept, pretty)
					s.opts.Audit = auditor
					auditedCode, auditedHeader, auditedBody := ask(accept, pretty)
					s.opts.Audit = nil
					if auditedCode != code || !bytes.Equal(auditedBody, body) {
						t.Errorf("%s, %s%s: %d and %d bytes, without audit %d and %d", path, accept, pretty, auditedCode, len(auditedBody), code, len(body))
					}
					if fmt.Sprint(auditedHeader) != fmt.Sprint(header) {
						t.Errorf("%s, %s%s: header %v, without audit %v", path, accept, pretty, auditedHeader, header)
					}
					plain := s.do("GET", path, "", "Accept", contentTypeJSON+shape)
					wanted[id] = nil
					if plain.Code == code && code != http.StatusNotAcceptable {
						var compact bytes.Buffer // errors may be indented
						if err := json.Compact(&compact, plain.Body.Bytes()); err != nil {
							t.Fatal(err)
						}
						wanted[id] = compact.Bytes()
					}
				}
			}
		}
	}
	end()
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for line := range bytes.Lines(log) {
		var event struct {
			AuditID        string
			RequestURI     string
			ResponseStatus struct{ Code int }
			ResponseObject json.RawMessage
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		want, ok := wanted[event.AuditID]
		switch {
		case !ok:
			t.Errorf("event %s was recorded twice, or not asked for", event.AuditID)
		case want == nil: // there is no such response, and the error depends on the encoding
			var status struct {
				Kind string
				Code int
			}
			if err := json.Unmarshal(event.ResponseObject, &status); err != nil || status.Kind != "Status" || status.Code != event.ResponseStatus.Code {
				t.Errorf("%s: recorded %.300s of a response with %d: %v", event.RequestURI, event.ResponseObject, event.ResponseStatus.Code, err)
			}
		case !bytes.Equal(event.ResponseObject, want):
			t.Errorf("%s: recorded %.300s, want %.300s", event.RequestURI, event.ResponseObject, want)
		default:
			objects++
		}
		delete(wanted, event.AuditID)
	}
	if len(wanted) > 0 || objects < 100 {
		t.Errorf("%d events are missing, %d have the wanted object", len(wanted), objects)
	}
}

func BenchmarkAudited(b *testing.B) {
	for _, c := range []struct{ name, path, accept string }{
		{"get/json", configMapPath + "/c000", contentTypeJSON},
		{"get/protobuf", configMapPath + "/c000", contentTypeProtobuf},
		{"list/json", configMapPath, contentTypeJSON},
		{"list/protobuf", configMapPath, contentTypeProtobuf},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, end := newAuditedServer(b, "")
			auditor := s.opts.Audit
			s.opts.Audit = nil
			for i := range 200 {
				s.must(201, "POST", configMapPath, configMap(fmt.Sprintf("c%03d", i), `,"data":{"text":"`+strings.Repeat("x", 1000)+`"}`))
			}
			s.opts.Audit = auditor
			r := s.request(b.Context(), c.path, "Accept", c.accept)
			b.ReportAllocs()
			for b.Loop() {
				r.Header.Set("Authorization", "Bearer "+token)
				s.ServeHTTP(&sink{header: http.Header{}}, r)
			}
			end()
		})
	}
}
