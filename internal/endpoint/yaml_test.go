package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestYAMLOfAnything compares objects and lists in YAML with the conversion of the whole JSON, as
// encoding/json escapes it, for any text and keys.
func TestYAMLOfAnything(t *testing.T) {
	s := newServer(t)
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", " ", "\n", "  ", "- ", ": ", "#", "\t", "\\", "\"", "'", "yes", "0", "é", "\u0085", "\u2028", "\u2029", "\r", "|", ">", "{",
		"long words of some kind that go on and on ", "\u0001", "~", "%", "\n\n", "---\n", "...\n"}
	text := func() string {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	paths := []string{widgetPath, widgetPath + "?labelSelector=none=there"}
	for i := range 100 {
		spec, err := json.Marshal(map[string]any{text(): text(), text() + text(): []any{text(), map[string]any{text(): text()}, []any{[]any{text()}, []any{}}, map[string]any{}}})
		if err != nil {
			t.Fatal(err)
		}
		s.must(http.StatusCreated, "POST", widgetPath, widget(fmt.Sprint("w", i), `,"spec":`+string(spec)))
		paths = append(paths, fmt.Sprint(widgetPath, "/w", i))
	}
	for _, path := range paths {
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, []byte(strings.ReplaceAll(s.must(http.StatusOK, "GET", path, ""), "\u0085", `\u0085`)))
		want, err := yaml.JSONToYAML(escaped.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.must(http.StatusOK, "GET", path, "", "Accept", "application/yaml"); got != string(want) {
			a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					t.Errorf("%s, line %d:\n%q, want\n%q", path, i, a[i], b[i])
					break
				}
			}
		}
	}
}
