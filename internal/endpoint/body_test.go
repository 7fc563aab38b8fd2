package endpoint

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Any body results in an error of the client or in a new object.
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

// Compares appendBare with decoding and encoding.
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

// TestMalformedChunks sends a body with invalid framing: an error of the client, not of the server.
func TestMalformedChunks(t *testing.T) {
	s := newServer(t)
	listening := httptest.NewServer(s)
	defer listening.Close()
	for name, body := range map[string]string{
		"no length":        "zz\r\n{}\r\n0\r\n\r\n",
		"negative":         "-1\r\n{}\r\n0\r\n\r\n",
		"length too large": "fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
		"no end":           "2\r\n{}xx0\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", listening.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%s", configMapPath, token, body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		conn.Close()
		if answer.StatusCode != 400 || !strings.Contains(string(text), `"reason":"BadRequest"`) || !strings.Contains(string(text), "cannot read the body of the request: ") {
			t.Errorf("%s: %s %s", name, answer.Status, text)
		}
	}
}
