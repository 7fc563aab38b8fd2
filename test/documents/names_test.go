package documents

import (
	"fmt"
	"strings"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// columns is the definition of crontabs with columns.
func columns(s *server, lines string) string {
	return strings.Replace(manifest(s, "crontab-crd.yaml"), "      schema:", "      additionalPrinterColumns:\n"+lines+"      schema:", 1)
}

func names() []row {
	return []row{
		{
			id: "N1", says: "any number of shortNames, through discovery", but: "they stand in spec.names, not in spec where the document prints them. It shows those of built-in kinds on DaemonSets (ds), which Kapok does not serve yet: Deployments have deploy", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-short-names.yaml"))
				s.must(200, "PATCH", betaCRDs+"/"+atCRD, `{"spec":{"names":{"shortNames":["at2","a2","cnat"]}}}`, "Content-Type", mergePatch)
				s.until(atRoot, func(a *answer) bool { return strings.Contains(a.text, `"shortNames":["at2","a2","cnat"]`) })
				s.get("/apis/apps/v1").item("resources", "name", "deployments").has("shortNames", "[deploy]")
				misplaced := strings.Replace(manifest(s, "at-crd.yaml"), "spec:\n", "spec:\n  shortNames: [at]\n", 1)
				s.must(400, "POST", betaCRDs+"?fieldValidation=Strict", misplaced).says(`unknown field \"spec.shortNames\"`)
			},
		},
		{
			id: "N2", says: "categories, existing or new", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-categories.yaml"))
				s.get(atRoot).item("resources", "name", "ats").has("categories", "[all]")
				s.get("/api/v1").item("resources", "name", "pods").has("categories", "[all]")
				s.must(200, "PATCH", betaCRDs+"/"+atCRD, `{"spec":{"names":{"categories":["all","brand-new"]}}}`, "Content-Type", mergePatch)
				s.until(atRoot, func(a *answer) bool { return strings.Contains(a.text, `"categories":["all","brand-new"]`) })
			},
		},
		{
			id: "N3", says: "the server renders the cells; the first column is the name", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-printer-columns.yaml"))
				s.must(201, "POST", ats, manifest(s, "at.yaml"))
				s.get(ats, "Accept", asTable).has("columnDefinitions.0.name", "Name", "columnDefinitions.0.format", "name",
					"rows.0.cells", "[example-at, '2019-07-03T02:00:00Z', null, pending]")
			},
		},
		{
			id: "N4", says: "columns: name, type, format, description, priority, JSONPath", but: "in v1 it is jsonPath, in every version of its own; -o wide shows priority above 0",
			show: func(s *server) {
				s.define(columns(s, "      - {name: Image, type: string, format: byte, description: what runs, priority: 1, jsonPath: .spec.image}\n"))
				s.must(201, "POST", crontabs, manifest(s, "crontab.yaml"))
				s.get(crontabs, "Accept", asTable).has("columnDefinitions.1",
					"{name: Image, type: string, format: byte, description: what runs, priority: 1}", "rows.0.cells.1", "my-image")
				s.must(400, "POST", crds+"?fieldValidation=Strict", strings.Replace(columns(s, "      - {name: I, type: string, JSONPath: .spec}\n"), "crontabs", "others", -1)).says("JSONPath")
				s.must(422, "POST", crds, strings.Replace(columns(s, "      - {name: I, type: text, jsonPath: .spec}\n"), "crontabs", "others", -1)).says("additionalPrinterColumns[0].type")
			},
		},
		{
			id: "N5", says: "simple paths only (.spec.foo.bar)", but: "indices and filters work too",
			show: func(s *server) {
				s.define(manifest(s, "at-crd.yaml"))
				s.must(200, "PATCH", betaCRDs+"/"+atCRD, `{"spec":{"additionalPrinterColumns":[
					{"name":"plain","type":"string","JSONPath":".spec.foo.bar"},
					{"name":"index","type":"integer","JSONPath":".spec.list[1].id"},
					{"name":"filter","type":"string","JSONPath":".spec.list[?(@.id==1)].s"}]}}`, "Content-Type", mergePatch)
				s.must(201, "POST", ats, atOf("a", "spec: {foo: {bar: deep}, list: [{id: 1, s: one}, {id: 2, s: two}]}"))
				s.until(ats, func(*answer) bool {
					table := s.get(ats, "Accept", asTable)
					return fmt.Sprint(table.find("rows.0.cells")) == "[a deep 2 one]"
				})
			},
		},
		{
			id: "N6", says: "columns of priority above 0 are hidden", but: "by kubectl, unless -o wide is asked for: the server sends all",
			show: func(s *server) {
				s.define(columns(s, "      - {name: Spec, type: string, jsonPath: .spec.cronSpec}\n      - {name: Image, type: string, priority: 1, jsonPath: .spec.image}\n"))
				s.get(crontabs, "Accept", asTable).has("columnDefinitions.1.priority", "0", "columnDefinitions.2.priority", "1")
			},
		},
		{
			id: "N7", says: "the At columns: NAME SCHEDULER COMMAND PHASE", but: "as the column is named, SCHEDULE", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-printer-columns.yaml"))
				s.must(201, "POST", ats, atOf("foo", `spec: {schedule: "2019-07-03T02:00:00Z", command: echo "hello world"}`+"\nstatus: {phase: Pending}"))
				s.get(ats, "Accept", asTable).has("columnDefinitions.1.name", "schedule", "columnDefinitions.2.name", "command", "columnDefinitions.3.name", "phase",
					"rows.0.cells", `[foo, "2019-07-03T02:00:00Z", 'echo "hello world"', Pending]`)
			},
		},
	}
}
