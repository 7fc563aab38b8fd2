package metamorphic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// A client sends steps to a server, and replaces in the responses what differs between servers by
// what does not. It outlives servers: what it has learned is valid for the next one on the same
// store.
type client struct {
	http http.Client
	host string

	revisions []int64       // of versions; 0 if no response had it
	versions  map[int64]int // the inverse
	uids      map[string]int
	tokens    map[int]string

	// After a change of encryption, a write without changes stores the object again, with a new
	// resourceVersion. This map has the newest one for the version of the object.
	rewrites  bool
	rewritten map[int]int64
	skip      map[int64]bool // resourceVersions of events that the model does not have
}

func newClient() *client {
	return &client{revisions: []int64{0}, versions: map[int64]int{}, uids: map[string]int{}, tokens: map[int]string{},
		rewritten: map[int]int64{}, skip: map[int64]bool{}}
}

// connect directs the client to another server.
func (c *client) connect(config *rest.Config) {
	c.http.Transport, c.host = config.Transport, config.Host
}

// wire is a decoded object, list, event or Status.
type wire struct {
	Kind     string
	Metadata struct {
		Name, Namespace, UID, ResourceVersion, Continue string
		Generation                                      int
		Labels, Annotations                             map[string]string
		Finalizers                                      []string
		DeletionTimestamp                               *string
		RemainingItemCount                              *int
	}
	Spec   struct{ Values map[string]string }
	Status json.RawMessage
	Data   map[string]string
	Items  []wire

	Code    int
	Reason  string
	Details struct{ UID string }

	Type   string
	Object *wire
}

func (c *client) send(ctx context.Context, method, path, contentType string, body any) (*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "metamorphic")
	return c.http.Do(r)
}

// ask sends a request and returns the response, decoded and raw.
func (c *client) ask(ctx context.Context, method, path, contentType string, body any) (code int, w wire, raw []byte, err error) {
	resp, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return 0, w, nil, err
	}
	defer resp.Body.Close()
	if raw, err = io.ReadAll(resp.Body); err == nil {
		err = json.Unmarshal(raw, &w)
	}
	return resp.StatusCode, w, raw, err
}

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	patchType = "application/json-patch+json"
)

// do sends a step about objects. Besides the answer to compare with the model, it returns details
// that must be equal on all servers.
func (c *client) do(ctx context.Context, s *step) (a answer, details string, err error) {
	var (
		code int
		w    wire
		raw  []byte
	)
	switch s.verb {
	case create:
		code, w, raw, err = c.ask(ctx, http.MethodPost, s.at.kind.path(s.at.namespace), jsonType, c.body(s))
	case update:
		code, w, raw, err = c.ask(ctx, http.MethodPut, s.at.path(), jsonType, c.body(s))
	case merge:
		code, w, raw, err = c.ask(ctx, http.MethodPatch, s.at.path(), mergeType, c.body(s))
	case status:
		code, w, raw, err = c.ask(ctx, http.MethodPatch, s.at.path()+"/status", mergeType, map[string]any{"status": map[string]any{"phase": s.phase}})
	case jsonPatch:
		patch := []any{}
		if s.ref >= 0 {
			patch = append(patch, map[string]any{"op": "test", "path": "/metadata/resourceVersion", "value": c.current(s.ref)})
		}
		for name, value := range s.set {
			patch = append(patch, map[string]any{"op": "add", "path": "/spec/values/" + name, "value": value})
		}
		code, w, raw, err = c.ask(ctx, http.MethodPatch, s.at.path(), patchType, patch)
	case remove:
		preconditions := map[string]any{}
		if s.uid != 0 {
			preconditions["uid"] = c.uid(s.uid)
		}
		if s.ref >= 0 {
			preconditions["resourceVersion"] = c.current(s.ref)
		}
		code, w, raw, err = c.ask(ctx, http.MethodDelete, s.at.path(), jsonType, map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
	case get:
		code, w, raw, err = c.ask(ctx, http.MethodGet, s.at.path(), jsonType, nil)
	case collection:
		code, w, raw, err = c.ask(ctx, http.MethodDelete, c.query(s, nil), jsonType, nil)
	case list:
		code, w, raw, err = c.ask(ctx, http.MethodGet, c.query(s, nil), jsonType, nil)
	case page:
		return c.page(ctx, s)
	case watch:
		return c.watch(ctx, s)
	case watchList:
		return c.watchList(ctx, s)
	default:
		return a, "", fmt.Errorf("a step %q is not about objects", s.verb)
	}
	if err != nil {
		return a, "", err
	}
	if a, err = c.answer(s, code, &w); err != nil {
		return a, "", err
	}
	for k, version := range s.versions {
		code, w, _, err := c.ask(ctx, http.MethodGet, k.path(), jsonType, nil)
		if err != nil || code != http.StatusOK {
			return a, "", errors.Join(err, fmt.Errorf("get %s after it was marked as deleted: %d", k, code))
		}
		s := &step{verb: get, at: k, learn: version}
		if _, err := c.answer(s, code, &w); err != nil {
			return a, "", err
		}
	}
	return a, c.strip(raw), nil
}

// body returns the body of a create, an update or a merge patch.
func (c *client) body(s *step) map[string]any {
	metadata := map[string]any{}
	if s.verb != merge {
		metadata["name"] = s.at.name
	}
	if s.app != nil && *s.app != "" {
		metadata["labels"] = map[string]any{"app": *s.app}
	} else if s.app != nil && s.verb == merge {
		metadata["labels"] = map[string]any{"app": nil}
	}
	if s.writes {
		metadata["finalizers"] = s.finalize
	}
	if s.ref >= 0 && s.verb != create {
		metadata["resourceVersion"] = c.current(s.ref)
	}
	if s.uid != 0 {
		metadata["uid"] = c.uid(s.uid)
	}
	return s.at.kind.body(metadata, s.set)
}

// query returns the path and the parameters of a list.
func (c *client) query(s *step, more url.Values) string {
	q := url.Values{}
	if s.selector != "" {
		q.Set("labelSelector", string(s.selector))
	}
	if s.ref >= 0 {
		q.Set("resourceVersion", c.revision(s.ref))
		if s.verb == list || s.verb == page {
			q.Set("resourceVersionMatch", map[bool]string{true: "Exact", false: "NotOlderThan"}[s.exact])
		}
	}
	for name, values := range more {
		q[name] = values
	}
	return s.at.kind.path(s.at.namespace) + "?" + q.Encode()
}

func (c *client) page(ctx context.Context, s *step) (a answer, details string, err error) {
	token, ok := c.tokens[s.slot]
	delete(c.tokens, s.slot)
	q := url.Values{"limit": {strconv.Itoa(s.limit)}}
	if !s.first {
		if !ok {
			return answer{note: "no token"}, "", nil
		}
		q.Set("continue", token)
	}
	code, w, raw, err := c.ask(ctx, http.MethodGet, c.query(s, q), jsonType, nil)
	if err != nil {
		return a, "", err
	}
	if a, err = c.answer(s, code, &w); err != nil {
		return a, "", err
	}
	if w.Metadata.Continue != "" {
		c.tokens[s.slot] = w.Metadata.Continue
		switch {
		case w.Reason == expired:
			a.more = "token"
		case w.Metadata.RemainingItemCount != nil:
			a.more = fmt.Sprintf("more: %d", *w.Metadata.RemainingItemCount)
		default:
			a.more = "more"
		}
		// A server need not know whether any of the remaining objects are selected.
		if s.selector != "" && s.want.more == "" && w.Reason != expired {
			a.more = ""
		}
	}
	return a, c.strip(raw), nil
}

// watch collects the events up to the marker's. The server ends a watch in which that does not
// come.
func (c *client) watch(ctx context.Context, s *step) (a answer, details string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mark := func() error {
		m, _, err := c.do(ctx, s.marker)
		a.note = m.String()
		return err
	}
	if !s.live {
		if err := mark(); err != nil {
			return a, "", err
		}
	}
	resp, err := c.send(ctx, http.MethodGet, c.query(s, url.Values{"watch": {"true"}, "timeoutSeconds": {"5"}}), jsonType, nil)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	if s.live {
		if err := mark(); err != nil {
			return a, "", err
		}
	}
	a.code = resp.StatusCode
	last := c.revisions[len(c.revisions)-1]
	newest := int64(0)
	for d := json.NewDecoder(resp.Body); ; {
		var e wire
		if err := d.Decode(&e); err != nil {
			return a, "", fmt.Errorf("watch after %q: %w", a.lines, err)
		}
		if e.Object == nil {
			e = wire{Type: "ERROR", Object: &e} // a response that is not a stream
		}
		if e.Type == "ERROR" {
			a.code, a.reason = e.Object.Code, e.Object.Reason
			return a, "", nil
		}
		rv, err := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
		if err != nil || rv <= newest {
			return a, "", fmt.Errorf("watch: resourceVersion %q comes after %d", e.Object.Metadata.ResourceVersion, newest)
		}
		newest = rv
		if c.skip[rv] {
			continue
		}
		a.lines = append(a.lines, e.Type+" "+c.text(s.at.kind, e.Object))
		if rv >= last {
			return a, "", nil
		}
	}
}

// watchList collects the initial events of a watch.
func (c *client) watchList(ctx context.Context, s *step) (a answer, details string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, c.query(s, url.Values{
		"watch": {"true"}, "timeoutSeconds": {"5"}, "sendInitialEvents": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
	}), jsonType, nil)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	a.code = resp.StatusCode
	var list wire
	for d := json.NewDecoder(resp.Body); ; {
		var e wire
		if err := d.Decode(&e); err != nil {
			return a, "", err
		}
		switch {
		case e.Type == "ADDED":
			list.Items = append(list.Items, *e.Object)
		case e.Type == "BOOKMARK" && e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true":
			slices.SortFunc(list.Items, func(a, b wire) int {
				return strings.Compare(a.Metadata.Namespace+"\x00"+a.Metadata.Name, b.Metadata.Namespace+"\x00"+b.Metadata.Name)
			})
			list.Kind, list.Metadata.ResourceVersion = "List", e.Object.Metadata.ResourceVersion
			a, err = c.answer(s, resp.StatusCode, &list)
			return a, "", err
		default:
			return a, "", fmt.Errorf("watch begins with %+v", e)
		}
	}
}

// answer converts a response, and records what it contains.
func (c *client) answer(s *step, code int, w *wire) (a answer, err error) {
	a.code = code
	switch {
	case code >= 300:
		a.reason = w.Reason
	case w.Kind == "Status":
		a.note = fmt.Sprintf("deleted #%s", c.created(w.Details.UID))
	case strings.HasSuffix(w.Kind, "List"):
		if a.version, err = c.listed(w.Metadata.ResourceVersion); err != nil {
			return a, err
		}
		for i := range w.Items {
			a.lines = append(a.lines, c.text(s.at.kind, &w.Items[i]))
		}
	case s.want.note == "removed" && w.Metadata.DeletionTimestamp != nil && len(w.Metadata.Finalizers) == 0:
		a.note = "removed"
	default:
		switch {
		case s.learn != 0:
			if err := c.learn(s.learn, w); err != nil {
				return a, err
			}
		case s.stays != 0 && c.rewrites:
			c.rewrite(s.stays, w)
		}
		a.lines = []string{c.text(s.at.kind, w)}
	}
	return a, nil
}

// learn records the resourceVersion of a version. It must be above those of all earlier versions.
func (c *client) learn(version int, w *wire) error {
	rv, err := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	for len(c.revisions) <= version {
		c.revisions = append(c.revisions, 0)
	}
	for v, other := range c.revisions {
		if other != 0 && v != version && (v < version) != (other < rv) {
			return fmt.Errorf("version %d has resourceVersion %d, and version %d has %d", version, rv, v, other)
		}
	}
	c.revisions[version], c.versions[rv] = rv, version
	if c.uids[w.Metadata.UID] == 0 {
		c.uids[w.Metadata.UID] = version
	}
	return nil
}

// rewrite records that the object of a version has a new resourceVersion, and is otherwise
// unchanged.
func (c *client) rewrite(version int, w *wire) {
	rv, err := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64)
	if err != nil || c.versions[rv] != 0 || rv <= slices.Max(c.revisions) {
		return
	}
	c.versions[rv], c.rewritten[version], c.skip[rv] = version, rv, true
}

// current returns the resourceVersion of the object that was last changed by a version.
func (c *client) current(version int) string {
	if rv := c.rewritten[version]; rv != 0 {
		return strconv.FormatInt(rv, 10)
	}
	return c.revision(version)
}

func (c *client) revision(version int) string { return strconv.FormatInt(c.revisions[version], 10) }

func (c *client) uid(created int) string {
	for uid, version := range c.uids {
		if version == created {
			return uid
		}
	}
	return fmt.Sprintf("the uid of #%d is not known", created)
}

func (c *client) created(uid string) string {
	if version := c.uids[uid]; version != 0 {
		return strconv.Itoa(version)
	}
	return "?"
}

// listed returns the newest version that a list at a resourceVersion shows.
func (c *client) listed(resourceVersion string) (string, error) {
	rv, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return "", err
	}
	for v, known := range slices.Backward(c.revisions) {
		if known != 0 && known <= rv {
			return "v" + strconv.Itoa(v), nil
		}
	}
	return "older than all", nil
}

// text returns the form of an object in the model.
func (c *client) text(k kind, w *wire) string {
	o := object{
		generation: w.Metadata.Generation, app: w.Metadata.Labels["app"], finalizers: w.Metadata.Finalizers,
		deleting: w.Metadata.DeletionTimestamp != nil, values: w.Data,
	}
	o.created = c.uids[w.Metadata.UID]
	switch k {
	case widgets:
		var status struct{ Phase string }
		_ = json.Unmarshal(w.Status, &status) // all objects of the test have this form
		o.values, o.phase = w.Spec.Values, status.Phase
	case secrets:
		o.values = decoded(w.Data)
	}
	version := "v*"
	if rv, err := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64); err == nil && c.versions[rv] != 0 {
		version = "v" + strconv.Itoa(c.versions[rv])
	}
	return o.text(key{k, w.Metadata.Namespace, w.Metadata.Name}, version)
}

var numbers = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9]+\b`)

// strip removes what differs between servers from a response.
func (c *client) strip(raw []byte) string {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err.Error()
	}
	if tree["kind"] == "Status" {
		return numbers.ReplaceAllString(string(raw), "N")
	}
	objects, _ := tree["items"].([]any)
	for _, o := range append(objects, tree) {
		metadata, _ := o.(map[string]any)["metadata"].(map[string]any)
		for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "continue", "remainingItemCount"} {
			delete(metadata, name)
		}
		managed, _ := metadata["managedFields"].([]any)
		for i, m := range managed {
			delete(m.(map[string]any), "time")
			managed[i] = fmt.Sprint(m)
		}
		slices.SortFunc(managed, func(a, b any) int { return strings.Compare(a.(string), b.(string)) }) // sorted by time before
	}
	text, err := json.Marshal(tree)
	return fmt.Sprint(string(text), err)
}
