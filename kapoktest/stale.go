package kapoktest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// read is RoundTrip of a get, a list or a watch.
func (i *injector) read(r *http.Request, f Fault) (*http.Response, error) {
	key, simple := keyOf(r.URL.Path)
	switch {
	case !simple || i.store == nil:
	case watches(r):
		r = i.duplicate(r, f, key)
	case key.Name != "":
		return i.get(r, f, key)
	default:
		if answer := i.list(r, f, key); answer != nil {
			return answer, nil
		}
	}
	answer, err := i.backend.RoundTrip(r)
	if err == nil && watches(r) && answer.StatusCode == http.StatusOK {
		body := fray(r.Context(), answer, i, f.Request)
		switch {
		case i.faults.Begin != BeginSynced || agentOf(r) == testAgent:
		case r.URL.Query().Get("sendInitialEvents") == "true":
			body.synced = func() { i.begins.Store(true) } // at the end of the existing objects
		default:
			i.begins.Store(true) // the client has listed before
		}
		answer.Body = body
	}
	return answer, err
}

// keyOf returns the key of the object in a path, without a name for a list. simple is false for
// subresources and for other paths.
func keyOf(at string) (key object.Key, simple bool) {
	parts := strings.Split(strings.Trim(at, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		key.Resource.Group, parts = parts[1], parts[3:]
	default:
		return key, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		key.Namespace, parts = parts[1], parts[2:]
	}
	key.Resource.Resource = parts[0]
	if len(parts) > 1 {
		key.Name = parts[1]
	}
	return key, len(parts) <= 2
}

// staleRevision returns the revision of a stale state: one before a change that the response would
// show. It returns 0 if the read does not allow one, or none exists.
func (i *injector) staleRevision(f Fault, key object.Key, query url.Values, probability float64) object.Revision {
	atLeast, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if err != nil {
		return 0
	}
	changes := i.store.Changes(key, object.Revision(atLeast), time.Now().Add(-orSecond(i.faults.MaxStale)))
	if len(changes) == 0 || !i.meets(f, probability) {
		return 0
	}
	return changes[int(i.chance(f, "how old")*float64(len(changes)))] - 1
}

// list returns a stale response, or nil without a fault.
func (i *injector) list(r *http.Request, f Fault, key object.Key) *http.Response {
	query := r.URL.Query()
	match := query.Get("resourceVersionMatch")
	exact := match == string(metav1.ResourceVersionMatchExact) || match == "" && query.Has("limit") && query.Get("resourceVersion") != "0"
	if exact || query.Has("continue") {
		return nil
	}
	f.What = "StaleList"
	at := i.staleRevision(f, key, query, i.faults.StaleList)
	if at == 0 {
		return nil
	}
	query.Del("limit") // a cache does not look at it
	return i.exactly(r, at, query)
}

// exactly lists at a revision. It returns nil if the server has dropped it.
func (i *injector) exactly(r *http.Request, at object.Revision, query url.Values) *http.Response {
	query.Set("resourceVersion", at.String())
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	answer, err := i.backend.RoundTrip(r)
	if err != nil {
		return nil
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil
	}
	return answer
}

// get returns an object, or a stale state of it if there is a fault.
func (i *injector) get(r *http.Request, f Fault, key object.Key) (*http.Response, error) {
	answer, err := i.backend.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		return answer, err // if it is forbidden, for example, so is an earlier version
	}
	accept := r.Header.Get("Accept")
	if strings.Contains(accept, "as=Table") || accept != "" && !strings.Contains(accept, "json") && !strings.Contains(accept, "*/*") {
		return answer, nil // it is not known how to answer
	}
	f.What = "StaleGet"
	at := i.staleRevision(f, key, r.URL.Query(), i.faults.StaleGet)
	if at == 0 {
		return answer, nil
	}
	if before := i.before(r, at, key, strings.Contains(accept, "as=PartialObjectMetadata")); before != nil {
		answer.Body.Close()
		return before, nil
	}
	return answer, nil
}

// before returns the response to a get at a revision. Only a list can read an old revision, and the
// Env sends it, because the user may lack the permission.
func (i *injector) before(r *http.Request, at object.Revision, key object.Key, partial bool) *http.Response {
	ask := r.Clone(r.Context())
	ask.URL.Path, ask.URL.RawPath = path.Dir(r.URL.Path), ""
	ask.Header = http.Header{"User-Agent": {ownAgent}, "Accept": {"application/json"}}
	if partial {
		ask.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	}
	answer := i.exactly(ask, at, url.Values{"fieldSelector": {"metadata.name=" + key.Name}})
	if answer == nil {
		return nil
	}
	defer answer.Body.Close()
	list := &unstructured.UnstructuredList{}
	if err := json.NewDecoder(answer.Body).Decode(list); err != nil {
		return nil
	}
	if len(list.Items) == 0 {
		return refuse(r, apierrors.NewNotFound(key.Resource, key.Name))
	}
	item := list.Items[0].Object
	item["apiVersion"], item["kind"] = list.GetAPIVersion(), strings.TrimSuffix(list.GetKind(), "List")
	return jsonAnswer(r, http.StatusOK, item)
}

// duplicate makes a watch that resumes begin earlier than requested: before a change that its
// client has received already.
func (i *injector) duplicate(r *http.Request, f Fault, key object.Key) *http.Request {
	query := r.URL.Query()
	from, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	told, resumes := i.toldSince(f.Request, object.Revision(from), err != nil || from == 0 || query.Get("sendInitialEvents") == "true")
	if !resumes {
		return r
	}
	var again []object.Revision
	for _, change := range i.store.Changes(key, told, time.Time{}) {
		if change <= object.Revision(from) {
			again = append(again, change)
		}
	}
	f.What = "Duplicate"
	if len(again) == 0 || !i.meets(f, i.faults.Duplicate) {
		return r
	}
	query.Set("resourceVersion", (again[int(i.chance(f, "how many")*float64(len(again)))] - 1).String())
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

// toldSince returns the revision after which a client has received changes, and reports whether its
// watch resumes. A new watch counts from the current revision.
func (i *injector) toldSince(who string, from object.Revision, fresh bool) (since object.Revision, resumes bool) {
	if fresh {
		from = i.store.Head()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.begun == nil {
		i.begun = map[string]object.Revision{}
	}
	since, known := i.begun[who]
	if fresh || !known {
		i.begun[who] = from
		return 0, false
	}
	return since, since < from
}
