package endpoint

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzIndent compares the indenter, with pieces of any size, with json.Indent.
func FuzzIndent(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, `{"a":[],"b":{},"c":[1,2,{"d":"e\\"f\\\\"}],"g":null}`, `"a"`, ` [ [ ] , [ { } ] ] `, `{"a,b":"{[:]}"}`} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		var want bytes.Buffer
		if json.Indent(&want, []byte(text), "", "  ") != nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		var in indenter
		var got []byte
		for rest := []byte(text); len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 7))
			got, rest = in.append(got, rest[:n]), rest[n:]
		}
		// json.Indent keeps trailing white space.
		if !bytes.Equal(bytes.TrimRight(want.Bytes(), " \t\r\n"), got) {
			t.Errorf("%q\nwant %q", got, want.String())
		}
	})
}

// TestDeepObjects requests a deeply nested object in indented JSON and in YAML: the response is not
// thousands of times as large as the object, and has its content.
func TestDeepObjects(t *testing.T) {
	s := newServer(t)
	const depth, elements = 3000, 20_000
	begin, end := strings.Repeat(`{"a":`, depth), strings.Repeat("}", depth)
	for name, value := range map[string]string{
		"elements": `[` + strings.Repeat("0,", elements) + `0]`,
		"lines":    `"` + strings.Repeat(`a\n`, elements) + `"`,
	} {
		body := widget(name, `,"spec":`+begin+value+end)
		s.must(http.StatusCreated, "POST", widgetPath, body)
		for _, path := range []string{widgetPath + "/" + name, widgetPath} {
			want := s.must(http.StatusOK, "GET", path, "")
			for _, accept := range []string{"application/json;pretty=1", "application/yaml"} {
				got := s.must(http.StatusOK, "GET", path, "", "Accept", accept)
				if most := mostSpaces(len(want)) + 2*len(want); len(got) > most {
					t.Errorf("%s of %s: %d bytes of %d", accept, path, len(got), len(want))
				}
				back, err := yaml.YAMLToJSON([]byte(got))
				if err != nil {
					t.Fatal(accept, path, err)
				}
				var a, b any
				if json.Unmarshal(back, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
					t.Errorf("%s of %s is another object", accept, path)
				}
			}
		}
		s.must(http.StatusOK, "DELETE", widgetPath+"/"+name, "")
	}
}
