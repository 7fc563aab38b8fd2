package documents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	configMaps  = "/api/v1/namespaces/default/configmaps"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	pods        = "/api/v1/namespaces/default/pods"
)

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`

func api() []row {
	return []row{
		{
			id: "A1", says: "groups have versions, versions have resources, resources have subresources: <group>/<version>/<resource>/<subresource>: apps/v1/deployments/status",
			show: func(s *server) {
				s.get("/apis").item("groups", "name", "apps").has("versions.0.groupVersion", "apps/v1")
				s.get("/apis/apps/v1").item("resources", "name", "deployments/status").has("kind", "Deployment")
				s.must(201, "POST", deployments, deployment)
				s.get(deployments+"/d/status").has("kind", "Deployment", "metadata.name", "d")
			},
		},
		{
			id: "A2", says: "kinds are written <group>/<version>, Kind=<kind>: apps/v1, Kind=Deployment",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				for resource, want := range map[string]string{"deployments": "apps/v1, Kind=Deployment", "ats": atGroup + "/v1alpha1, Kind=At", "pods": "/v1, Kind=Pod"} {
					kind, err := s.mapper().KindFor(schema.GroupVersionResource{Resource: resource})
					if err != nil || kind.String() != want {
						s.Errorf("%s: %s, %v, want %s", resource, kind, err, want)
					}
				}
			},
		},
		{
			id: "A3", says: "8 verbs: create delete deletecollection get list patch (part) update (whole) watch",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				created := s.must(201, "POST", ats, manifest(s, "at.yaml"))
				s.get(at).has("spec", "{schedule: '2019-07-03T02:00:00Z'}")
				version := s.get(ats).has("kind", "AtList", "items.0.metadata.name", "example-at").string("metadata.resourceVersion")
				s.must(200, "PATCH", at, `{"spec":{"command":"true"}}`, "Content-Type", mergePatch).has("spec", "{schedule: '2019-07-03T02:00:00Z', command: 'true'}")
				s.must(200, "PATCH", at, `[{"op":"add","path":"/spec/more","value":1}]`, "Content-Type", jsonPatch).has("spec.more", "1")
				s.must(200, "PATCH", at+"?fieldManager=me&force=true", atOf("example-at", "spec: {schedule: x}"), "Content-Type", applyPatch).has("spec.schedule", "x", "spec.more", "1")
				now := s.get(at).string("metadata.resourceVersion")
				s.must(200, "PUT", at, atOf("example-at, resourceVersion: '"+now+"'", "spec: {command: y}")).has("spec", "{command: y}",
					"metadata.uid", created.string("metadata.uid"))
				s.must(200, "DELETE", at, "").has("status", "Success")
				for _, name := range []string{"a", "b"} {
					s.must(201, "POST", ats, atOf(name, ""))
				}
				s.must(200, "DELETE", ats, "")
				s.get(ats).has("items", "[]")
				want := slices.Concat(slices.Repeat([]string{"MODIFIED example-at"}, 4), []string{"DELETED example-at", "ADDED a", "ADDED b", "DELETED a", "DELETED b"})
				if got := s.watch(ats+"?watch=true&resourceVersion="+version, len(want)); !slices.Equal(got, want) {
					s.Errorf("events %v, want %v", got, want)
				}
			},
		},
		{
			id: "A4", says: "named groups under /apis, the core group (name \"\") under /api", but: "plain HTTP is gone: the socket speaks TLS",
			show: func(s *server) {
				s.get("/apis/apps/v1/deployments").has("kind", "DeploymentList")
				s.get("/api/v1/pods").has("kind", "PodList")
				s.must(404, "GET", "/apis/v1/pods", "")
				s.must(404, "GET", "/api/apps/v1/deployments", "")
				if secure, plain := plainHTTP(s); secure != 200 || plain != 400 {
					s.Errorf("https: %d, http: %d", secure, plain)
				}
			},
		},
		{
			id: "A5", says: "a group, or one resource of it, can be switched off",
			but: "for custom resources, by their definitions, and for v1beta1 of the definitions, by an option. Kapok has no switch for the other built-in groups",
			show: func(s *server) {
				s.define(crd("foos", "example.com", "Foo", "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}"))
				path := crds + "/foos.example.com"
				s.must(200, "PATCH", path, `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`, "Content-Type", jsonPatch)
				s.until("/apis/example.com/v2", func(a *answer) bool { return a.code == 404 })
				s.get("/apis/example.com/v1/foos")
				s.must(200, "PATCH", path, `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, "Content-Type", jsonPatch)
				s.until("/apis/example.com", func(a *answer) bool { return a.code == 404 })
				s.must(404, "GET", "/apis/example.com/v1/foos", "")
				startWith(s.TB, kapok.Options{}).must(404, "GET", betaCRDs, "")
			},
		},
		{
			id: "A6", says: "the same kind name may exist in several groups",
			show: func(s *server) {
				for _, group := range []string{"one.example.com", "two.example.com"} {
					s.define(crd("deployments", group, "Deployment", ""))
					s.must(201, "POST", "/apis/"+group+"/v1/namespaces/default/deployments", "{apiVersion: "+group+"/v1, kind: Deployment, metadata: {name: d}}")
				}
				s.must(404, "GET", deployments+"/d", "")
				s.must(201, "POST", deployments, deployment)
			},
		},
		{
			id: "A7", says: "kubectl needs no group name", script: "core.txt",
			show: func(s *server) {
				got, err := s.mapper().ResourceFor(schema.GroupVersionResource{Resource: "deployments"})
				if want := (schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); err != nil || got != want {
					s.Errorf("%v, %v, want %v", got, err, want)
				}
				s.get("/apis/apps/v1").item("resources", "name", "deployments").has("singularName", "deployment", "shortNames", "[deploy]")
			},
		},
		{
			id: "A10", says: "verbs differ by resource: pods all 8, a pod's log only get",
			but: "the subresource is pods/log. Kapok has nothing that runs containers yet, and so no logs; deployments/status shows it: get, patch, update",
			show: func(s *server) {
				if got := verbsOf(s.get("/api/v1").item("resources", "name", "pods")); !slices.Equal(got, eight) {
					s.Errorf("pods: %v", got)
				}
				if got := verbsOf(s.get("/apis/apps/v1").item("resources", "name", "deployments/status")); !slices.Equal(got, []string{"get", "patch", "update"}) {
					s.Errorf("deployments/status: %v", got)
				}
				s.must(404, "GET", pods+"/a/log", "")
			},
		},
		{
			id: "A12", says: "namespaces isolate objects",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				s.must(201, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: other}}")
				other := strings.Replace(ats, "default", "other", 1)
				a, b := s.must(201, "POST", ats, manifest(s, "at.yaml")), s.must(201, "POST", other, manifest(s, "at.yaml"))
				if a.string("metadata.uid") == b.string("metadata.uid") {
					s.Error("one object in two namespaces")
				}
				s.get(other).has("items.0.metadata.namespace", "other", "items.1", "absent")
				s.get(atRoot+"/ats").has("items.0.metadata.namespace", "default", "items.1.metadata.namespace", "other")
				s.must(404, "POST", strings.Replace(ats, "default", "missing", 1), manifest(s, "at.yaml")).says(`namespaces \"missing\" not found`)
				s.must(200, "DELETE", "/api/v1/namespaces/other", "")
				s.until(other, func(a *answer) bool { return a.find("items.0") == nil })
				s.get(at)
			},
		},
		{
			id: "A13", says: "an object: apiVersion, kind, metadata (name namespace uid resourceVersion creationTimestamp deletionTimestamp labels annotations), spec (wanted), status (observed); YAML or JSON",
			show: func(s *server) {
				text := manifest(s, "pod.yaml")
				for i, body := range []string{text, asJSON(s, strings.Replace(text, "my-first-pod", "other", 1))} {
					a := s.must(201, "POST", pods, body, "Content-Type", []string{"application/yaml", "application/json"}[i])
					a.has("apiVersion", "v1", "kind", "Pod", "metadata.namespace", "default", "spec.containers.0.image", "nginx:latest", "status.phase", "Pending")
					for _, key := range []string{"name", "uid", "resourceVersion", "creationTimestamp"} {
						if a.string("metadata."+key) == "" {
							s.Errorf("no metadata.%s", key)
						}
					}
				}
				s.get(pods+"/my-first-pod", "Accept", "application/yaml").says("kind: Pod\n")
				s.must(200, "PATCH", pods+"/my-first-pod", `{"metadata":{"finalizers":["example.com/hold"],"labels":{"a":"b"},"annotations":{"c":"d"}}}`, "Content-Type", mergePatch)
				a := s.must(200, "DELETE", pods+"/my-first-pod", `{"gracePeriodSeconds":0}`, "Content-Type", "application/json").has("metadata.labels.a", "b", "metadata.annotations.c", "d")
				if a.string("metadata.deletionTimestamp") == "" {
					s.Error("no deletionTimestamp")
				}
			},
		},
		{
			id: "A14", says: "manifests are persisted as objects; controllers drive status to spec", but: "the controllers are not part of the server",
			show: func(s *server) {
				dir := s.TempDir()
				first := startWith(s.TB, kapok.Options{DataDir: dir, V1beta1CRDs: true})
				first.define(manifest(s, "at-crd.yaml"))
				first.must(201, "POST", ats, manifest(s, "at.yaml"))
				// What a controller does: it sees the object, and writes what it has observed.
				if events := first.watch(ats+"?watch=true", 1); events[0] != "ADDED example-at" {
					s.Errorf("events %v", events)
				}
				stored := first.must(200, "PATCH", at+"/status", `{"status":{"phase":"done"}}`, "Content-Type", mergePatch)
				if err := first.Stop(); err != nil {
					s.Fatal(err)
				}
				again := startWith(s.TB, kapok.Options{DataDir: dir, V1beta1CRDs: true}).get(at)
				was, _ := json.Marshal(stored.tree)
				is, _ := json.Marshal(again.tree)
				if string(was) != string(is) {
					s.Errorf("after a restart: %s, want %s", is, was)
				}
			},
		},
		{
			id: "A15", says: "persistent entities stay (Deployment); ephemeral ones (Pod) are not rebuilt after failure",
			but: "Kapok has no workload controllers yet, so a Deployment creates no Pods",
			show: func(s *server) {
				s.must(201, "POST", deployments, deployment)
				s.must(201, "POST", pods, manifest(s, "pod.yaml"))
				s.must(200, "PATCH", pods+"/my-first-pod/status", `{"status":{"phase":"Failed"}}`, "Content-Type", mergePatch)
				s.get(pods+"/my-first-pod").has("status.phase", "Failed")
				s.must(200, "DELETE", pods+"/my-first-pod", `{"gracePeriodSeconds":0}`, "Content-Type", "application/json")
				s.must(404, "GET", pods+"/my-first-pod", "")
				s.get(deployments + "/d")
			},
		},
		{
			id: "A16", says: "an object read and written in any served version loses nothing",
			show: func(s *server) {
				s.define(crd("foos", "example.com", "Foo",
					"  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"))
				path := func(version string) string {
					return "/apis/example.com/" + version + "/namespaces/default/foos/a"
				}
				s.must(201, "POST", strings.TrimSuffix(path("v1"), "/a"), "{apiVersion: example.com/v1, kind: Foo, metadata: {name: a, labels: {x: z}}, spec: {i: 1, f: 1.5, list: [1, a, null, {}]}}")
				for i := range 6 {
					version := []string{"v2", "v1"}[i%2]
					got := s.get(path(version)).has("apiVersion", "example.com/"+version, "metadata.labels", "{x: z}", "spec", "{i: 1, f: 1.5, list: [1, a, null, {}]}")
					got.tree["touched"] = fmt.Sprint(i)
					body, err := json.Marshal(got.tree)
					if err != nil {
						s.Fatal(err)
					}
					s.must(200, "PUT", path(version), string(body), "Content-Type", "application/json")
				}
			},
		},
		{
			id: "A17", says: "all scale subresources return kind Scale (the HPA needs it)",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-scale.yaml"))
				s.must(201, "POST", ats, atOf("a", "spec: {replicas: 2}"))
				s.must(201, "POST", deployments, deployment)
				for _, path := range []string{ats + "/a/scale", deployments + "/d/scale"} {
					s.get(path).has("kind", "Scale", "apiVersion", "autoscaling/v1")
				}
				lists, err := s.discovery().ServerPreferredResources()
				if err != nil {
					s.Fatal(err)
				}
				for _, list := range lists {
					for _, r := range list.APIResources {
						if strings.HasSuffix(r.Name, "/scale") && (r.Kind != "Scale" || r.Group != "autoscaling" || r.Version != "v1") {
							s.Errorf("%s %s: %+v", list.GroupVersion, r.Name, r)
						}
					}
				}
			},
		},
	}
}
