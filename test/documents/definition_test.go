package documents

import (
	"fmt"
	"strings"
)

func definitions() []row {
	return []row{
		{
			id: "C1", says: "the v1beta1 CRD without schema is accepted; Ats keep all their fields", script: "at.txt",
			but: "Kubernetes no longer serves v1beta1; Kapok does by default. A CRD of v1 needs a schema, and prunes",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml")).has("spec.preserveUnknownFields", "true")
				s.must(201, "POST", ats, manifest(s, "at.yaml")).has("spec", "{schedule: '2019-07-03T02:00:00Z'}")
				s.must(201, "POST", ats, atOf("other", "spec: {schedule: x, deep: {er: [1, {a: b}]}}\nmore: {c: d}")).has(
					"spec.deep", "{er: [1, {a: b}]}", "more", "{c: d}")
				s.must(422, "POST", crds, strings.Replace(manifest(s, "at-crd.yaml"), "v1beta1", "v1", 1))
			},
		},
		{
			id: "C2", says: "the v1 CRD is accepted; /apis/stable.example.com/v1/namespaces/*/crontabs is served", script: "crontab.txt",
			show: func(s *server) {
				s.define(manifest(s, "crontab-crd.yaml"))
				for _, namespace := range []string{"default", "kube-system", "anything"} {
					s.get("/apis/stable.example.com/v1/namespaces/"+namespace+"/crontabs").has("kind", "CronTabList", "items", "[]")
				}
			},
		},
		{
			id: "C3", says: "its objects are listed by singular, plural, ct", but: "the object is my-cron-object", script: "crontab.txt",
			show: func(s *server) {
				s.define(manifest(s, "crontab-crd.yaml"))
				s.must(201, "POST", crontabs, manifest(s, "crontab.yaml"))
				s.get("/apis/stable.example.com/v1").item("resources", "name", "crontabs").has("singularName", "crontab", "shortNames", "[ct]")
				s.get(crontabs, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").has("rows.0.cells.0", "my-cron-object")
				s.get(crontabs+"/my-cron-object", "Accept", "application/yaml").says("cronSpec: '* * * * */5'")
			},
		},
		{
			id: "C4", says: "metadata.name is exactly `<plural>.<group>`",
			show: func(s *server) {
				// The documents print at.cnat... in one place, which is a slip.
				for _, name := range []string{"at." + atGroup, "ats", "Ats." + atGroup} {
					s.must(422, "POST", betaCRDs, strings.Replace(manifest(s, "at-crd.yaml"), atCRD, name, 1)).says(
						`must be spec.names.plural+\".\"+spec.group`)
				}
			},
		},
		{
			id: "C5", says: "defaults: singular = lower kind, listKind = kind+List, versions = [spec.version], served = false",
			show: func(s *server) {
				s.define(`
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: `+atCRD+`}
spec: {group: `+atGroup+`, version: v1alpha1, names: {plural: ats, kind: At}, scope: Namespaced}
`).has("spec.names.singular", "at", "spec.names.listKind", "AtList",
					"spec.versions.0.name", "v1alpha1", "spec.versions.0.served", "true", "spec.versions.0.storage", "true", "spec.versions.1", "absent")
				s.must(201, "POST", crds, strings.Replace(crd("foos", "example.com", "Foo", ""), "served: true, ", "", 1)).has("spec.versions.0.served", "false")
				s.must(201, "POST", betaCRDs, strings.ReplaceAll(strings.Replace(manifest(s, "at-crd.yaml"), "    served: true\n", "", 1), "cnat", "unserved")).has(
					"spec.versions.0.served", "false")
			},
		},
		{
			id: "C6", says: "served switches each version; exactly one has storage",
			show: func(s *server) {
				s.define(crd("foos", "example.com", "Foo", "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}"))
				s.get("/apis/example.com/v2/foos")
				s.must(200, "PATCH", crds+"/foos.example.com", `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`, "Content-Type", jsonPatch)
				s.until("/apis/example.com/v2/foos", func(a *answer) bool { return a.code == 404 })
				for _, storage := range []bool{true, false} {
					patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%[1]t},{"op":"replace","path":"/spec/versions/1/storage","value":%[1]t}]`, storage)
					s.must(422, "PATCH", crds+"/foos.example.com", patch, "Content-Type", jsonPatch).says("must have exactly one version marked as storage version")
				}
			},
		},
		{
			id: "C7", says: "scope Namespaced or Cluster",
			show: func(s *server) {
				s.define(strings.Replace(crd("foos", "example.com", "Foo", ""), "Namespaced", "Cluster", 1))
				s.must(201, "POST", "/apis/example.com/v1/foos", "{apiVersion: example.com/v1, kind: Foo, metadata: {name: a}}").has("metadata.namespace", "absent")
				s.must(404, "GET", "/apis/example.com/v1/namespaces/default/foos", "")
				s.must(422, "POST", crds, strings.Replace(crd("bars", "example.com", "Bar", ""), "Namespaced", "Local", 1)).says(
					`spec.scope: Unsupported value: \"Local\": supported values: \"Cluster\", \"Namespaced\"`)
			},
		},
		{
			id: "C8", says: "order: aggregated servers, built-in, custom resources, 404; one store for all",
			show: func(s *server) {
				foos, passedOn := "/apis/example.com/v1/namespaces/default/foos", func(a *answer) bool { return a.code == 503 }
				toNoService := "groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {name: s, namespace: default}"
				apiServices := "/apis/apiregistration.k8s.io/v1/apiservices"
				// Other servers come first, here one that is not there, before custom resources and
				// before what is built in.
				s.must(201, "POST", apiServices, "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}, "+
					"spec: {group: example.com, version: v1, "+toNoService+"}}")
				s.until(foos, passedOn)
				s.define(crd("foos", "example.com", "Foo", ""))
				s.must(503, "GET", foos, "")
				s.must(200, "DELETE", apiServices+"/v1.example.com", "")
				s.until(foos, func(a *answer) bool { return a.code == 200 })
				s.get(deployments)
				s.must(200, "PATCH", apiServices+"/v1.apps?fieldManager=me&force=true",
					"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.apps}, spec: {group: apps, version: v1, "+toNoService+"}}", "Content-Type", applyPatch)
				s.until(deployments, passedOn)
				s.must(200, "DELETE", apiServices+"/v1.apps", "")
				s.until(deployments, func(a *answer) bool { return a.code == 200 })

				// What is built in stays before custom resources, and groups that are not served
				// are absent.
				lease := "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {leaseDurationSeconds: 0}}"
				s.must(201, "POST", crds, strings.Replace(crd("leases", "coordination.k8s.io", "Lease", ""), "metadata: {",
					`metadata: {annotations: {api-approved.kubernetes.io: "unapproved, to see what happens"}, `, 1))
				s.until(crds+"/leases.coordination.k8s.io", func(a *answer) bool { return a.condition("NamesAccepted") == "False" }).says("Conflict")
				s.must(422, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).says("spec.leaseDurationSeconds")
				s.must(404, "GET", "/apis/example.org/v1/foos", "").says("404 page not found")
				// One store counts the revisions of all kinds.
				first := s.must(201, "POST", foos, "{apiVersion: example.com/v1, kind: Foo, metadata: {name: a}}")
				second := s.must(201, "POST", configMaps, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
				if a, b := first.string("metadata.resourceVersion"), second.string("metadata.resourceVersion"); len(a) > len(b) || len(a) == len(b) && a >= b {
					s.Errorf("resourceVersion %s, then %s", a, b)
				}
			},
		},
		{
			id: "C9", says: "kubectl finds a new kind by itself", but: "what the document prints is the output of kubectl get crd", script: "at.txt",
			show: func(s *server) {
				before := s.send("GET", atRoot, "")
				s.define(manifest(s, "at-crd.yaml"))
				// As soon as it is established, all that clients look at has it.
				if s.get(atRoot).says(`"ats"`); before.code != 404 {
					s.Error("it was there before")
				}
				s.get("/apis").says(atGroup)
				s.get("/openapi/v3").says("apis/" + atGroup + "/v1alpha1")
				s.get(crds, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").has(
					"columnDefinitions.0.name", "Name", "columnDefinitions.3.name", "Created At", "rows.0.cells.0", atCRD)
			},
		},
		{
			id: "C10", says: "status: acceptedNames with defaults filled in, storedVersions", script: "at.txt",
			show: func(s *server) {
				s.define(strings.NewReplacer("    listKind: AtList\n", "", "    singular: at\n", "").Replace(manifest(s, "at-crd.yaml"))).has(
					"status.acceptedNames", "{kind: At, listKind: AtList, plural: ats, singular: at}", "status.storedVersions", "[v1alpha1]")
			},
		},
		{
			id: "C11", says: "NamesAccepted True `NoConflicts` `no conflicts found`", script: "at.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml")).item("status.conditions", "type", "NamesAccepted").has(
					"status", "'True'", "reason", "NoConflicts", "message", "no conflicts found")
			},
		},
		{
			id: "C12", says: "Established True `InitialNamesAccepted` `the initial names have been accepted`", script: "at.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml")).item("status.conditions", "type", "Established").has(
					"status", "'True'", "reason", "InitialNamesAccepted", "message", "the initial names have been accepted")
			},
		},
		{
			id: "C13", says: "a name taken by another CRD: NamesAccepted False; a new CRD is not served",
			but: "the reasons are PluralConflict, SingularConflict, ShortNamesConflict, KindConflict, ListKindConflict",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				for _, c := range []struct{ names, reason, name string }{
					{"plural: at, kind: Other", "PluralConflict", "at"},
					{"plural: others, singular: ats, kind: Other", "SingularConflict", "ats"},
					{"plural: others, kind: Other, shortNames: [at]", "ShortNamesConflict", "at"},
					{"plural: others, singular: other, kind: At, listKind: OtherList", "KindConflict", "At"},
					{"plural: others, singular: other, kind: Other, listKind: AtList", "ListKindConflict", "AtList"},
				} {
					plural, _, _ := strings.Cut(strings.TrimPrefix(c.names, "plural: "), ",")
					text := strings.Replace(crd(plural, atGroup, "Other", ""), "plural: "+plural+", kind: Other", c.names, 1)
					s.must(201, "POST", crds, text)
					path := crds + "/" + plural + "." + atGroup
					taken := s.until(path, func(a *answer) bool { return a.condition("NamesAccepted") != "" })
					taken.item("status.conditions", "type", "NamesAccepted").has("status", "'False'", "reason", c.reason, "message", `'"`+c.name+`" is already in use'`)
					taken.item("status.conditions", "type", "Established").has("status", "'False'", "reason", "NotAccepted", "message", "not all names are accepted")
					s.must(404, "GET", "/apis/"+atGroup+"/v1/"+plural, "")
					s.must(200, "DELETE", path, "")
					s.until(path, func(a *answer) bool { return a.code == 404 })
				}
			},
		},
		{
			id: "C14", says: "names and columns of a served CRD can change; on a conflict it stays Established and serves the old names",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				s.define(crd("others", atGroup, "Other", ""))
				path := crds + "/others." + atGroup
				s.must(200, "PATCH", path, `{"spec":{"names":{"shortNames":["ot"]}}}`, "Content-Type", mergePatch)
				s.until(path, func(a *answer) bool {
					return strings.Contains(a.text, `"plural":"others","shortNames":["ot"],"singular":"other"},"conditions"`)
				})
				s.must(200, "PATCH", path, `{"spec":{"names":{"shortNames":["at","ot"]}}}`, "Content-Type", mergePatch)
				refused := s.until(path, func(a *answer) bool { return a.condition("NamesAccepted") == "False" })
				if refused.has("status.acceptedNames.shortNames", "[ot]"); refused.condition("Established") != "True" {
					s.Error("no longer established")
				}
				s.get("/apis/"+atGroup+"/v1").item("resources", "name", "others").has("shortNames", "[ot]")
				s.define(manifest(s, "at-crd-printer-columns.yaml"))
				s.until(ats+"?as=table", func(*answer) bool {
					return s.get(ats, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").string("columnDefinitions.3.name") == "phase"
				})
			},
		},
		{
			id: "C15", says: "the CRD itself is validated",
			show: func(s *server) {
				s.must(422, "POST", crds, strings.Replace(crd("foos", "example.com", "Foo", ""), "scope: Namespaced", "", 1)).says("spec.scope: Required value")
				for from, says := range map[string]string{
					"  - name: v1alpha1":                 "spec.versions[0].name",
					"    storage: true\n":                "spec.versions: Invalid value",
					"  group: " + atGroup + "\n":         "spec.group: Required value",
					"    kind: At\n    listKind: AtList": "spec.names.kind: Required value",
				} {
					to := ""
					if strings.HasPrefix(from, "  - ") {
						to = "  - name: V1"
					}
					a := s.send("POST", betaCRDs, strings.Replace(manifest(s, "at-crd.yaml"), from, to, 1))
					if a.says(says); a.code != 422 {
						s.Errorf("without %q: %d %s", from, a.code, a.text)
					}
				}
			},
		},
	}
}
