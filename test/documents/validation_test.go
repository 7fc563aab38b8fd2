package documents

import "strings"

func validation() []row {
	return []row{
		{
			id: "V1", says: "create and update are checked against OpenAPI v3; the answer names the fields; HTTP 400",
			but: "the answer is 422 Invalid, with a cause for each field; 400 is for bytes that cannot be decoded",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-schema.yaml"))
				s.must(422, "POST", ats, manifest(s, "at.yaml")).has("reason", "Invalid", "details.causes.0.field", "spec.command").says("spec.command: Required value")
				s.must(201, "POST", ats, atOf("a", "spec: {schedule: '2019-07-03T02:00:00Z', command: echo}"))
				s.must(422, "PATCH", ats+"/a", `{"spec":{"schedule":"soon"}}`, "Content-Type", mergePatch).has("details.causes.0.field", "spec.schedule").says(
					`spec.schedule in body should match '^\\d{4}-([0]\\d|1[0-2])-([0-2]\\d|3[01])...'`)
				s.must(400, "POST", ats, "{{").has("reason", "BadRequest")
				s.must(422, "PUT", ats+"/a", atOf("a", "spec: {command: echo}")).says("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
			},
		},
		{
			id: "V2", says: "type, properties, required, pattern; required also for metadata, apiVersion, kind, spec",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-schema.yaml"))
				for body, says := range map[string]string{
					"":                                   "spec: Required value",
					"spec: 3":                            `spec in body must be of type object: \"integer\"`,
					"spec: {schedule: 3, command: echo}": `spec.schedule in body must be of type string: \"integer\"`,
					"spec: {schedule: x, command: echo}": "spec.schedule in body should match",
					"spec: {schedule: '2019-07-03T02:00:00Z'}":                                    "spec.command: Required value",
					"spec: {schedule: '2019-07-03T02:00:00Z', command: echo}\nstatus: {phase: 3}": "",
				} {
					if a := s.send("POST", ats, atOf("b", body)); a.code != 422 && says != "" {
						s.Errorf("%s: %d %s", body, a.code, a.text)
					} else if a.says(says); says == "" && a.code != 201 {
						s.Errorf("the status of what is created counts for nothing: %d %s", a.code, a.text)
					}
				}
				s.must(400, "POST", ats, "metadata: {name: c}\nspec: {schedule: '2019-07-03T02:00:00Z', command: echo}").says("Object 'Kind' is missing")
				s.must(400, "POST", ats, "kind: At\nmetadata: {name: c}\nspec: {schedule: '2019-07-03T02:00:00Z', command: echo}")
			},
		},
		{
			id: "V3", says: "validating webhooks run right after the schema",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-schema.yaml"))
				s.must(201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1/unreachable"}
  rules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: [ats]}]
  admissionReviewVersions: [v1]
  sideEffects: None
`)
				s.must(422, "POST", ats, atOf("b", "spec: {schedule: x, command: echo}")).says("spec.schedule in body should match")
				s.must(500, "POST", ats, atOf("b", "spec: {schedule: '2019-07-03T02:00:00Z', command: echo}")).says(`failed calling webhook \"a.example.com\": failed to call webhook`)
			},
		},
		{
			id: "V4", says: "schemas are in /openapi; kubectl refuses unknown fields (`foo: bar`)", script: "crontab.txt",
			but: "the server refuses them: 400 strict decoding error: unknown field \"spec.foo\"",
			show: func(s *server) {
				s.define(manifest(s, "crontab-crd.yaml"))
				s.get("/openapi/v2").says(`"com.example.stable.v1.CronTab"`, `"cronSpec":{"type":"string"}`)
				s.get("/openapi/v3/apis/stable.example.com/v1").says(`"com.example.stable.v1.CronTab"`, `"cronSpec":{"type":"string"}`)
				body := manifest(s, "crontab.yaml") + "  foo: bar\n"
				s.must(400, "POST", crontabs+"?fieldValidation=Strict", body).says(`strict decoding error: unknown field \"spec.foo\"`)
				if w := s.must(201, "POST", crontabs+"?fieldValidation=Warn", body).header.Get("Warning"); w != `299 - "unknown field \"spec.foo\""` {
					s.Errorf("warning %s", w)
				}
			},
		},
		{
			id: "V5", says: "unknown fields are not persisted", but: "v1beta1 defaults to preserveUnknownFields: true, and then they are, schema or not",
			show: func(s *server) {
				s.define(manifest(s, "crontab-crd.yaml"))
				s.must(201, "POST", crontabs, manifest(s, "crontab.yaml")+"  foo: bar\nmore: 1\n").has("spec.foo", "absent", "more", "absent", "spec.image", "my-image")
				s.get(crontabs+"/my-cron-object").has("spec.foo", "absent")
				s.define(manifest(s, "at-crd-validation.yaml"))
				s.must(201, "POST", ats, atOf("a", "spec: {schedule: x, command: kept}")).has("spec.command", "kept")
				s.define(manifest(s, "at-crd-validation.yaml") + "\n")
				s.must(200, "PATCH", betaCRDs+"/"+atCRD, `{"spec":{"preserveUnknownFields":false}}`, "Content-Type", mergePatch)
				s.until(ats+"/a", func(a *answer) bool { return a.find("spec.command") == nil }).has("spec", "{schedule: x}")
			},
		},
		{
			id: "V6", says: "`status:` null under subresources is a validation error",
			but: "today null is as good as nothing: accepted, and there is no /status", script: "columns.txt",
			show: func(s *server) {
				s.define(manifest(s, "at-crd-status-null.yaml"))
				if list := s.get(atRoot); strings.Contains(list.text, "ats/status") {
					s.Error(list.text)
				}
				s.must(201, "POST", ats, manifest(s, "at.yaml")).has("status", "{phase: pending}")
				s.must(404, "GET", at+"/status", "")
			},
		},
	}
}
