package cost

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/test/seeds"
	"github.com/kapok-dev/kapok/test/yardstick"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var all = flag.Bool("cost", false, "judge every field, and time as well")

// The limits on the cost of a request. A JSON object of a built-in kind becomes a Go struct many
// times its size, so that objects count besides bytes. The cost of a byte must not grow with the
// body.
const (
	small = 8 << 10  // size of the first body
	large = 64 << 10 // size of the second body

	bytesPerByte   = 4_000 // allocated bytes for each byte of the body
	bytesPerObject = 20 << 10
	timePerByte    = 10 * time.Microsecond // processor time for each byte of the body, on the machine of package yardstick
	timePerObject  = 100 * time.Microsecond
	growth         = 2.5     // maximum ratio of the allocated bytes per byte between both bodies
	cheap          = 250     // allocated bytes per byte below which growth does not matter
	answerAnyway   = 1 << 20 // size of a response to any body
	answerPerByte  = 4       // size of the response for each byte of the body
	objectPerByte  = 40      // the same if the response is the object, with its defaults
)

// A target is a server and its client.
type target struct {
	client   *http.Client
	host     string
	slowness float64 // of the machine
}

func start(t *testing.T) *target {
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	config := server.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &target{client: client, host: config.Host}
	if *all {
		s.slowness = yardstick.Slowness(t)
	}
	return s
}

// A spending is the cost of one request.
type spending struct {
	code      int
	allocated uint64
	took      time.Duration
	answer    int
	text      string
}

// long reports whether a response is too long for a body of a size.
func (s *spending) long(body int) bool {
	perByte := answerPerByte
	if s.code < 300 {
		perByte = objectPerByte
	}
	return s.answer > perByte*body+answerAnyway
}

func (s *target) send(t *testing.T, method, path, contentType string, body []byte) spending {
	request, err := http.NewRequestWithContext(t.Context(), method, s.host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	allocated, used := allocatedBytes(), processorTime()
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	_, err = io.Copy(&text, answer.Body)
	answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	spent := spending{code: answer.StatusCode, allocated: allocatedBytes() - allocated, took: processorTime() - used, answer: text.Len()}
	if len(text.Bytes()) > 300 {
		text.Truncate(300)
	}
	spent.text = text.String()
	return spent
}

// most returns the limit on the processor time for a body of some bytes and objects.
func (s *target) most(size, objects int) time.Duration {
	return time.Duration(s.slowness * float64(time.Duration(size)*timePerByte+time.Duration(objects)*timePerObject))
}

func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collection returns the path of a kind.
func collection(d *resource.Definition) string {
	path := "/apis/" + d.Group + "/" + d.Versions[0].Name
	if d.Group == "" {
		path = "/api/" + d.Versions[0].Name
	}
	if d.Namespaced {
		path += "/namespaces/default"
	}
	return path + "/" + d.Plural
}

func TestKinds(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 0))
	target := start(t)
	shared := &walker{entered: map[reflect.Type]bool{}}
	for _, d := range kinds.Definitions() {
		if d.Action != nil {
			continue
		}
		t.Run(d.GroupResource().String(), func(t *testing.T) {
			sample := sampleOf(t, d)
			var others []func(path string)
			for _, f := range shared.fieldsOf(reflect.TypeOf(d.Versions[0].Model.New())) {
				for _, s := range shapes {
					if !*all && random.IntN(40) != 0 {
						continue
					}
					v := verbs[random.IntN(len(verbs))]
					if *all || v == verbs[0] {
						target.judge(t, verbs[0], collection(d), sample, f, s)
					}
					if v != verbs[0] {
						others = append(others, func(path string) { target.judge(t, v, path, sample, f, s) })
					}
				}
			}
			if len(others) == 0 {
				return
			}
			// Later than the creates, which would find that the object exists.
			path := target.store(t, d, sample)
			for _, judge := range others {
				judge(path)
			}
			// Webhooks, policies and quotas must not act on the next kinds.
			if spent := target.send(t, http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil); spent.code >= 300 {
				t.Errorf("delete %s: %d %s", path, spent.code, spent.text)
			}
		})
	}
}

// A verb is a way to send the object of a kind.
type verb struct{ name, method, contentType string }

// verbs begins with the one that needs no object in the store.
var verbs = []verb{
	{"create", http.MethodPost, jsonType},
	{"update", http.MethodPut, jsonType},
	{"JSON patch", http.MethodPatch, jsonPatch},
	{"merge patch", http.MethodPatch, mergePatch},
	{"strategic merge patch", http.MethodPatch, strategic},
	{"apply", http.MethodPatch, applyPatch},
}

// body returns the body with which the verb sends an object whose field f has grown.
func (v verb) body(t *testing.T, obj map[string]any, f field) []byte {
	var send any = obj
	if v.contentType == jsonPatch {
		changed := string(f.path[0])
		send = []any{map[string]any{"op": "add", "path": "/" + changed, "value": obj[changed]}}
	}
	body, err := json.Marshal(send)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// store stores the sample of a kind, and returns the path of the object. It adds to the sample the
// resourceVersion, which an update of some kinds must have.
func (s *target) store(t *testing.T, d *resource.Definition, sample map[string]any) string {
	t.Helper()
	body, err := json.Marshal(sample)
	if err != nil {
		t.Fatal(err)
	}
	spent := s.send(t, http.MethodPost, collection(d), jsonType, body)
	metadata, _ := sample["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	path := collection(d) + "/" + name
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the sample was not stored: %d %s", spent.code, spent.text)
	}
	var live struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&live); err != nil {
		t.Fatal(err)
	}
	metadata["resourceVersion"] = live.Metadata.ResourceVersion
	return path
}

func sampleOf(t *testing.T, d *resource.Definition) map[string]any {
	text, err := os.ReadFile(filepath.Join("../../internal/kinds/kindtest/testdata", d.GroupResource().String()+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	// Events must be in the namespace of their object.
	text = bytes.ReplaceAll(text, []byte("namespace: ns"), []byte("namespace: default"))
	if err := yaml.Unmarshal(text, &obj); err != nil {
		t.Fatal(err)
	}
	gv := d.Versions[0].Name
	if d.Group != "" {
		gv = d.Group + "/" + gv
	}
	obj["apiVersion"], obj["kind"] = gv, d.Kind
	return obj
}

// judge measures one field in one shape, sent by one verb.
func (s *target) judge(t *testing.T, v verb, path string, sample map[string]any, f field, shape shape) {
	path += "?dryRun=All"
	if v.contentType == applyPatch {
		path += "&fieldManager=m&force=true"
	}
	spent := func(size int) (spending, []byte) {
		obj := grow(sample, f, shape, size)
		if obj == nil {
			return spending{}, nil
		}
		body := v.body(t, obj, f)
		return s.send(t, v.method, path, v.contentType, body), body
	}
	first, firstBody := spent(small)
	if firstBody == nil {
		return
	}
	second, body := spent(large)
	perByte := float64(second.allocated) / float64(len(body))
	grown := perByte / (float64(first.allocated) / float64(len(firstBody)))
	objects := bytes.Count(body, []byte("{"))
	line := fmt.Sprintf("%s %s %s: %d, %.0f bytes and %v for a byte, growing %.1f; answer of %d bytes: %.200s",
		v.name, f, shape.name, second.code, perByte, second.took/time.Duration(len(body)), grown, second.answer, second.text)
	switch {
	case second.allocated > uint64(bytesPerByte*len(body)+bytesPerObject*objects):
		t.Errorf("too many bytes: %s", line)
	case grown > growth && perByte > cheap:
		t.Errorf("not linear: %s", line)
	case *all && second.took > s.most(len(body), objects):
		t.Errorf("too long: %s", line)
	case second.long(len(body)):
		t.Errorf("long answer: %s", line)
	case testing.Verbose():
		t.Log(line)
	}
}
