package corpus

import (
	"strings"
	"testing"
)

func testSession(t *testing.T) *session {
	t.Helper()
	kept, err := decodeJSON([]byte(`{"metadata":{"resourceVersion":"7","name":"n"},"spec":{"a":[{"b":5}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{ns: "corpus-abc", kept: map[string]any{"one": kept}}
	s.beginCase()
	return s
}

func TestExpand(t *testing.T) {
	s := testSession(t)
	for in, want := range map[string]string{
		"/namespaces/{ns}/x":         "/namespaces/corpus-abc/x",
		`{"rv":"{one.rv}"}`:          `{"rv":"7"}`,
		"{one.metadata.name}":        "n",
		"{one.spec.a.0.b}":           "5",
		`{"ab"*3}`:                   "ababab",
		`{"{\"a\":"*2}1{"}"*2}`:      `{"a":{"a":1}}`,
		"metadata: {name: x, a: {}}": "metadata: {name: x, a: {}}",
		"^[a-z]{3}$":                 "^[a-z]{3}$",
		"{unknown}":                  "{unknown}",
		"/paths/{namespace}/{name}":  "/paths/{namespace}/{name}",
	} {
		if got, err := s.expand(in); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"{two.rv}", "{one.metadata.uid}", "{one.uid}"} {
		if got, err := s.expand(in); err == nil {
			t.Errorf("%s: got %s, want an error", in, got)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		input, body string // body is the parameter
		method      string
		media       string
		want        string
	}{
		"yaml":     {"POST /x\n\na: b", "", "POST", "application/yaml", "a: b"},
		"json":     {"POST /x\n\n{\"a\":1}", "", "POST", "application/json", `{"a":1}`},
		"header":   {"PATCH /x\nContent-Type: text/plain\n\nhello", "", "PATCH", "text/plain", "hello"},
		"quoted":   {"POST /x\nContent-Type: a/b\n\n\"\\xff\"", "quoted", "POST", "a/b", "\xff"},
		"protobuf": {"POST /x\n\napiVersion: v1\nkind: ConfigMap", "protobuf", "POST", protobufMedia, "k8s\x00"},
		"bare":     {"GET /x", "", "GET", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := testSession(t).parseRequest(tc.input, parameters{body: tc.body})
			if err != nil {
				t.Fatal(err)
			}
			if r.method != tc.method || r.path != "/x" || r.header.Get("Content-Type") != tc.media || !strings.HasPrefix(string(r.body), tc.want) {
				t.Errorf("got %s %s %s %q", r.method, r.path, r.header, r.body)
			}
		})
	}
	for _, input := range []string{"GET", "GET /x\nno header", "POST /x\n\n{one.absent}"} {
		if _, err := testSession(t).parseRequest(input, parameters{}); err == nil {
			t.Errorf("%q: want an error", input)
		}
	}
}

func TestProtobuf(t *testing.T) {
	body, err := protobufFromYAML([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: aGVsbG8=}"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := decodeProtobuf(body)
	if err != nil {
		t.Fatal(err)
	}
	if got := compact(v); got != `{"apiVersion": "v1", "data": {"k": "aGVsbG8="}, "kind": "Secret", "metadata": {"name": "s"}}` {
		t.Errorf("got %s", got)
	}
}
