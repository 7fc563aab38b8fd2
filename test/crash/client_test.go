package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

const namespace = "crash"

// A kind is one of the two kinds that are written.
type kind struct {
	collection string // its path
	version    string // its apiVersion and kind, as JSON
	field      string // the field with an object's content
}

var kinds = []kind{
	{"/api/v1/namespaces/" + namespace + "/configmaps", `"apiVersion":"v1","kind":"ConfigMap"`, "data"},
	{"/apis/test.example.com/v1/namespaces/" + namespace + "/records", `"apiVersion":"test.example.com/v1","kind":"Record"`, "spec"},
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"records.test.example.com"},
"spec":{"group":"test.example.com","scope":"Namespaced","names":{"plural":"records","kind":"Record"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"step":{"type":"string"},"load":{"type":"string"}}}}}}}]}}`

// manifest returns the object of a step. Its size differs from step to step.
func (k kind) manifest(name string, step int) string {
	return fmt.Sprintf(`{%s,"metadata":{"name":%q},%q:{"step":"%d","load":%q}}`, k.version, name, k.field, step, load(step))
}

func load(step int) string { return strings.Repeat("load ", step*step*37%1500) }

// encoded is a decoded object or list.
type encoded struct {
	Metadata struct {
		Name, UID, ResourceVersion string
	}
	Data, Spec map[string]string
	Message    string // of a Status
	Items      []encoded
}

// read returns what the ledger needs of an object, and checks that its content is complete.
func (e *encoded) read() (o object, err error) {
	content := e.Data
	if content == nil {
		content = e.Spec
	}
	if o.step, err = strconv.Atoi(content["step"]); err != nil {
		return o, fmt.Errorf("%s: %w", e.Metadata.Name, err)
	}
	if o.rv, err = strconv.ParseUint(e.Metadata.ResourceVersion, 10, 64); err != nil {
		return o, fmt.Errorf("%s: %w", e.Metadata.Name, err)
	}
	if content["load"] != load(o.step) {
		return o, fmt.Errorf("%s: the content is not that of step %d", e.Metadata.Name, o.step)
	}
	o.uid = e.Metadata.UID
	return o, nil
}

// A client sends requests to one run of the server.
type client struct {
	http *http.Client
	host string
}

func newClient(config *rest.Config) (*client, error) {
	c, err := rest.HTTPClientFor(config)
	return &client{http: c, host: config.Host}, err
}

// A refused is the error of a request with an error response.
type refused struct{ error }

// do sends a request and decodes the response.
func (c *client) do(ctx context.Context, method, path, contentType, body string) (*encoded, error) {
	resp, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	e := &encoded{}
	if err := json.Unmarshal(data, e); err != nil || resp.StatusCode > 299 {
		return nil, refused{fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, data)}
	}
	return e, nil
}

func (c *client) send(ctx context.Context, method, path, contentType, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	return c.http.Do(r)
}

// list returns the objects of a kind by name, and the revision of the list.
func (c *client) list(ctx context.Context, k kind) (map[string]object, uint64, error) {
	e, err := c.do(ctx, "GET", k.collection, "", "")
	if err != nil {
		return nil, 0, err
	}
	rv, err := strconv.ParseUint(e.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, 0, err
	}
	objects := map[string]object{}
	for i := range e.Items {
		o, err := e.Items[i].read()
		if err != nil {
			return nil, 0, err
		}
		objects[e.Items[i].Metadata.Name] = o
	}
	return objects, rv, nil
}

// errBroken means that a watch has broken off.
var errBroken = errors.New("the watch has broken off")

// watch reads the events of a kind after a revision, until the last of the given ones or the end of
// the stream. It also returns its position, which may be beyond the last event because of a
// bookmark.
func (c *client) watch(ctx context.Context, k kind, from uint64, last func(event) bool) (events []event, position uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&resourceVersion=%d", k.collection, from)
	resp, err := c.send(ctx, "GET", path, "", "")
	if err != nil {
		return nil, from, errors.Join(errBroken, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, from, fmt.Errorf("watch from %d: %s", from, resp.Status)
	}
	for stream := json.NewDecoder(resp.Body); ; {
		var next struct {
			Type   string
			Object encoded
		}
		if err := stream.Decode(&next); err != nil {
			return events, from, errors.Join(errBroken, err)
		}
		switch next.Type {
		case "BOOKMARK":
			rv, err := strconv.ParseUint(next.Object.Metadata.ResourceVersion, 10, 64)
			if err != nil || rv < from {
				return events, from, fmt.Errorf("watch from %d: bookmark at %d: %w", from, rv, err)
			}
			from = rv
		case "ADDED", "MODIFIED", "DELETED":
			o, err := next.Object.read()
			if err != nil {
				return events, from, fmt.Errorf("watch from %d: %w", from, err)
			}
			e := event{next.Type, next.Object.Metadata.Name, o}
			if err := ordered(from, []event{e}); err != nil {
				return events, from, err
			}
			events, from = append(events, e), o.rv
			if last(e) {
				return events, from, nil
			}
		default:
			return events, from, fmt.Errorf("watch from %d: %s %s", from, next.Type, next.Object.Message)
		}
	}
}
