package endpoint

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kapok-dev/kapok/internal/object"

	corev1 "k8s.io/api/core/v1"
)

// Whatever a body holds, the answer is the client's fault or a new object.
func FuzzCreate(f *testing.F) {
	in := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
	in.Name, in.Kind, in.APIVersion = "a", "ConfigMap", "v1"
	f.Add(uint8(asJSON), []byte(configMap("a", `,"data":{"k":"v"}`)))
	f.Add(uint8(asYAML), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\ndata: &x {k: v}\n"))
	f.Add(uint8(asProtobuf), []byte(encodeProtobuf(f, in)))
	s := newServer(f)
	f.Fuzz(func(t *testing.T, e uint8, data []byte) {
		s := &server{TB: t, Handler: s.Handler}
		for _, path := range []string{configMapPath, widgetPath} {
			w := s.do("POST", path+"?dryRun=All", string(data), "Content-Type", mediaTypes[e%uint8(len(mediaTypes))])
			if w.Code != 201 && (w.Code < 400 || w.Code >= 500) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %q", path, w.Body)
			}
		}
	})
}

// The slow twin of appendBare decodes.
func FuzzAppendBare(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","data":{"kind":"\\\""},"kind":"A","metadata":{"name":"n","uid":"1"},"spec":[1,{"kind":"B"}]}`))
	f.Add([]byte(`{"metadata":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tree map[string]any
		if json.Unmarshal(data, &tree) != nil {
			return
		}
		form, err := object.Encode(tree)
		if err != nil {
			return
		}
		var got, want map[string]any
		if err := json.Unmarshal(appendBare(nil, form, 7), &got); err != nil {
			t.Fatalf("%s of %s: %v", appendBare(nil, form, 7), form.Bytes, err)
		}
		if err := json.Unmarshal(form.AppendTo(nil, 7), &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "apiVersion")
		delete(want, "kind")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", form.Bytes, diff)
		}
	})
}
