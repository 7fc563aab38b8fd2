package documents

import (
	"fmt"
	"strings"
)

func subresources() []row {
	return []row{
		{
			id: "T1", says: "with status enabled, writes to the main path (create too) ignore status",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml")).has("status", "absent")
				s.must(200, "PATCH", at, `{"status":{"phase":"x"}}`, "Content-Type", mergePatch).has("status", "absent")
				s.must(200, "PATCH", at+"/status", `{"status":{"phase":"x"}}`, "Content-Type", mergePatch)
				s.must(200, "PATCH", at, `{"status":null,"spec":{"command":"true"}}`, "Content-Type", mergePatch).has("status.phase", "x", "spec.command", "'true'")
			},
		},
		{
			id: "T2", says: "writes to /status ignore all else, labels and annotations too",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				s.must(200, "PATCH", at+"/status", `{"status":{"phase":"x"},"spec":{"schedule":"y"},"more":1,"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`,
					"Content-Type", mergePatch).has("status.phase", "x", "spec.schedule", "'2019-07-03T02:00:00Z'", "more", "absent", "metadata.labels", "absent", "metadata.annotations", "absent")
			},
		},
		{
			id: "T3", says: "create on /status is refused", but: "as an unknown method of a path that is there: 405",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				s.must(405, "POST", at+"/status", manifest(s, "at.yaml")).says(`create is not supported on resources of kind \"ats.` + atGroup + `\"`)
			},
		},
		{
			id: "T4", says: "generation grows when anything but metadata and status changes; never by /status",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml")).has("metadata.generation", "1")
				for _, step := range []struct{ path, patch, generation string }{
					{at, `{"metadata":{"labels":{"a":"b"}}}`, "1"},
					{at, `{"spec":{"command":"true"}}`, "2"},
					{at, `{"spec":{"command":"true"}}`, "2"},
					{at, `{"more":{"command":"true"}}`, "3"},
					{at, `{"status":{"phase":"x"}}`, "3"},
					{at + "/status", `{"status":{"phase":"x"},"spec":null}`, "3"},
				} {
					s.must(200, "PATCH", step.path, step.patch, "Content-Type", mergePatch).has("metadata.generation", step.generation)
				}
			},
		},
		{
			id: "T5", says: "an update may omit the half it does not own",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				head := func(a *answer) string {
					return fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: At\nmetadata: {name: example-at, resourceVersion: %q}\n", atGroup, a.string("metadata.resourceVersion"))
				}
				a := s.must(201, "POST", ats, manifest(s, "at.yaml"))
				a = s.must(200, "PUT", at+"/status", head(a)+"status: {phase: x}").has("spec.schedule", "'2019-07-03T02:00:00Z'")
				s.must(200, "PUT", at, head(a)+"spec: {schedule: z}").has("status.phase", "x", "spec.schedule", "z")
			},
		},
		{
			id: "T6", says: "RBAC tells ats from ats/status",
			but: "Kapok has no RBAC yet: who is not an admin may do nothing with either. What it will tell apart is there: the subresource has a path and verbs of its own",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				s.get(atRoot).item("resources", "name", "ats/status").has("verbs", "[get, patch, update]")
				for _, path := range []string{at, at + "/status"} {
					a := s.must(403, "GET", path, "", "Impersonate-User", "jane")
					resource := strings.TrimSuffix("ats/"+strings.TrimPrefix(strings.TrimPrefix(path, at), "/"), "/")
					a.has("reason", "Forbidden").says(`User \"jane\" cannot get resource \"` + resource + `\" in API group \"` + atGroup + `\"`)
				}
			},
		},
		{
			id: "T7", says: "subresources per version: v1beta1 has /status, v1alpha1 not", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-versions.yaml"))
				beta := strings.Replace(atRoot, "v1alpha1", "v1beta1", 1)
				s.get(beta).says(`"ats/status"`)
				if list := s.get(atRoot); strings.Contains(list.text, "ats/status") {
					s.Error(list.text)
				}
				s.must(201, "POST", ats, manifest(s, "at.yaml")).has("status.phase", "pending")
				s.must(404, "GET", at+"/status", "")
				other := beta + "/namespaces/default/ats"
				s.must(200, "PATCH", other+"/example-at/status", `{"status":{"phase":"done"}}`, "Content-Type", mergePatch).has("status.phase", "done")
				s.must(201, "POST", other, strings.NewReplacer("v1alpha1", "v1beta1", "example-at", "other").Replace(manifest(s, "at.yaml"))).has("status", "absent")
			},
		},
		{
			id: "T8", says: "main, /status, /scale share one resourceVersion: a stale write to any is a conflict",
			show: func(s *server) {
				s.define(scalable(s))
				old := s.must(201, "POST", ats, atOf("a", "spec: {replicas: 1}")).string("metadata.resourceVersion")
				write := func(code int, path, version string) *answer {
					body := fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: At\nmetadata: {name: a, resourceVersion: %q}\nspec: {replicas: %s}\nstatus: {phase: %q}", atGroup, version, version, version)
					if strings.HasSuffix(path, "/scale") {
						body = fmt.Sprintf("apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a, namespace: default, resourceVersion: %q}\nspec: {replicas: %s}", version, version)
					}
					return s.must(code, "PUT", path, body)
				}
				paths := []string{ats + "/a", ats + "/a/status", ats + "/a/scale"}
				for _, fresh := range paths {
					now := write(200, fresh, s.get(ats+"/a").string("metadata.resourceVersion")).string("metadata.resourceVersion")
					for _, stale := range paths {
						write(409, stale, old).has("reason", "Conflict").says("the object has been modified")
					}
					old = now
					s.must(200, "PATCH", ats+"/a", `{"metadata":{"labels":{"at":"r`+now+`"}}}`, "Content-Type", mergePatch)
				}
			},
		},
		{
			id: "T9", says: "/scale is a view; only replicas is written",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-scale.yaml"))
				s.must(201, "POST", ats, atOf("a", "spec: {replicas: 1, command: x}\nstatus: {replicas: 1, labelSelector: a=b}"))
				s.must(200, "PATCH", ats+"/a/scale", `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":3},"status":{"replicas":9,"selector":"c=d"}}`, "Content-Type", mergePatch).has(
					"spec.replicas", "3", "status.replicas", "1", "status.selector", "a=b")
				s.get(ats+"/a").has("spec", "{replicas: 3, command: x}", "status", "{replicas: 1, labelSelector: a=b}", "metadata.labels", "absent", "metadata.generation", "2")
			},
		},
		{
			id: "T10", says: "kubectl scale writes specReplicasPath (any simple path: .spec.size)", script: "scale.txt",
			but: "kubectl reads the object and patches /scale. Without replicas /scale is 500, and -1 is 422",
			show: func(s *server) {
				s.define(strings.Replace(manifest(s, "at-crd-scale.yaml"), "specReplicasPath: .spec.replicas", "specReplicasPath: .spec.size", 1))
				s.must(201, "POST", ats, atOf("a", "spec: {size: 1}"))
				s.must(200, "PATCH", ats+"/a/scale", `{"spec":{"replicas":7}}`, "Content-Type", mergePatch)
				s.get(ats+"/a").has("spec", "{size: 7}")
				s.must(200, "PUT", ats+"/a/scale", "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a, namespace: default}\nspec: {replicas: 8}").has("spec.replicas", "8")
				s.must(422, "PATCH", ats+"/a/scale", `{"spec":{"replicas":-1}}`, "Content-Type", mergePatch).says(".spec.size: Invalid value: -1")
				s.must(201, "POST", ats, atOf("none", "spec: {}"))
				s.must(500, "GET", ats+"/none/scale", "").says(`the spec replicas field \".spec.size\" does not exist`)
			},
		},
		{
			id: "T11", says: "the selector is optional and read-only",
			show: func(s *server) {
				s.define(strings.Replace(manifest(s, "at-crd-scale.yaml"), "      labelSelectorPath: .status.labelSelector\n", "", 1))
				s.must(201, "POST", ats, atOf("a", "spec: {replicas: 1}"))
				s.get(ats+"/a/scale").has("status", "{replicas: 0}")
				s.must(200, "PATCH", ats+"/a/scale", `{"status":{"selector":"a=b"}}`, "Content-Type", mergePatch).has("status", "{replicas: 0}")
			},
		},
		{
			id: "T12", says: "Scale of autoscaling/v1: metadata, spec.replicas, status.replicas, status.selector (string)", but: "status stands beside spec", script: "scale.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-scale.yaml"))
				a := s.must(201, "POST", ats, atOf("cr-name", "spec: {replicas: 3}\nstatus: {replicas: 2, labelSelector: environment = production}"))
				s.get(ats+"/cr-name/scale").has("apiVersion", "autoscaling/v1", "kind", "Scale", "spec", "{replicas: 3}",
					"status", "{replicas: 2, selector: environment = production}",
					"metadata", fmt.Sprintf("{name: cr-name, namespace: default, uid: %q, resourceVersion: %q, creationTimestamp: %q}",
						a.string("metadata.uid"), a.string("metadata.resourceVersion"), a.string("metadata.creationTimestamp")))
			},
		},
		{
			id: "T13", says: "the server creates no replicas; a controller does",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-scale.yaml"))
				s.must(201, "POST", ats, atOf("a", "spec: {replicas: 1}"))
				s.must(200, "PATCH", ats+"/a/scale", `{"spec":{"replicas":3}}`, "Content-Type", mergePatch).has("status.replicas", "0")
				s.get(ats).has("items.1", "absent")
				s.get("/api/v1/pods").has("items", "[]")
			},
		},
	}
}

// scalable is the definition of Ats with both subresources.
func scalable(s *server) string {
	return strings.Replace(manifest(s, "at-crd-scale.yaml"), "  subresources:\n", "  subresources:\n    status: {}\n", 1)
}
