package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// pieces is a client that measures the longest piece of a response.
type pieces struct {
	*httptest.ResponseRecorder
	longest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.longest = max(p.longest, len(b))
	return p.ResponseRecorder.Write(b)
}

func (s *server) list(path, accept string) *pieces {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), "GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", accept)
	p := &pieces{ResponseRecorder: httptest.NewRecorder()}
	s.ServeHTTP(p, r)
	if p.Code != http.StatusOK {
		s.Fatalf("%s %s: %d %s", path, accept, p.Code, p.Body)
	}
	return p
}

// TestListsStream checks that long lists are sent in pieces in each media type, with the content of
// the list in JSON.
func TestListsStream(t *testing.T) {
	s := newServer(t)
	const objects, size = 50, 40_000
	for i := range objects {
		text := fmt.Sprintf("%d\n\n  indented: %s\n", i, strings.Repeat("- some words, and \"more\"\n", size/25))
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d","labels":{"n":"%d"}},"data":{"a":%s}}`, i, i, data)
		if w := s.do("POST", "/api/v1/namespaces/default/configmaps", body); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
		body = fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d"},"spec":{"a":%s,"n":%d,"none":{},"list":[1,{"b":null}]}}`, i, data, i)
		if w := s.do("POST", "/apis/example.com/v1/namespaces/default/widgets", body); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	const partial = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for _, path := range []string{"/api/v1/configmaps", "/apis/example.com/v1/widgets", "/api/v1/configmaps?labelSelector=x", "/api/v1/configmaps?limit=3"} {
		for _, as := range []string{"", partial} {
			plain := s.list(path, "application/json"+as).Body.Bytes()
			var want map[string]any
			if err := json.Unmarshal(plain, &want); err != nil {
				t.Fatal(err)
			}
			short := func(name string, p *pieces) {
				t.Helper()
				if most := spillAbove + 2*size; p.longest > most {
					t.Errorf("%s%s %s: a piece of %d bytes, at most %d wanted", path, as, name, p.longest, most)
				}
			}

			asYAML := s.list(path, "application/yaml"+as)
			short("YAML", asYAML)
			var got map[string]any
			if err := yaml.Unmarshal(asYAML.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s%s: %v", path, as, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s%s: YAML differs: %.500s", path, as, d)
			}
			whole, err := yaml.JSONToYAML(plain)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(whole, asYAML.Body.Bytes()) {
				t.Errorf("%s%s: YAML is not what the whole list becomes:\n%.300s\nwant\n%.300s", path, as, asYAML.Body, whole)
			}

			pretty := s.list(path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"pretty=true", "application/json"+as)
			short("pretty", pretty)
			var indented bytes.Buffer
			if err := json.Indent(&indented, bytes.TrimSpace(plain), "", "  "); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(indented.Bytes(), pretty.Body.Bytes()) {
				t.Errorf("%s%s: pretty JSON differs", path, as)
			}
		}
	}
	inProtobuf := s.list("/api/v1/configmaps", "application/vnd.kubernetes.protobuf")
	if most := spillAbove + 2*size; inProtobuf.longest > most {
		t.Errorf("protobuf: a piece of %d bytes, at most %d wanted", inProtobuf.longest, most)
	}
	envelope, err := openEnvelope(inProtobuf.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var list, want corev1.ConfigMapList
	if err := list.Unmarshal(envelope.Raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.list("/api/v1/configmaps", "application/json").Body.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = metav1.TypeMeta{}
	if d := cmp.Diff(want.Items[7].Data, list.Items[7].Data); d != "" || len(list.Items) != objects || list.ResourceVersion != want.ResourceVersion {
		t.Errorf("protobuf: %d items of revision %s, %s", len(list.Items), list.ResourceVersion, d)
	}
}
