package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/webhook"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	mutatePath   = "/mutate-batch-tutorial-kubebuilder-io-v1-cronjob"
	validatePath = "/validate-batch-tutorial-kubebuilder-io-v1-cronjob"
)

// hooks are the webhooks as the manager serves them.
func hooks(t *testing.T) http.Handler {
	t.Helper()
	server := webhook.NewServer(webhook.Options{Port: -1})
	if _, err := newManager(&rest.Config{Host: "http://nowhere.invalid"}, ctrl.Options{WebhookServer: server}, nil); err != nil {
		t.Fatal(err)
	}
	return server.WebhookMux()
}

// review sends an AdmissionReview of a CronJob, which is YAML.
func review(t *testing.T, hooks http.Handler, path string, operation admissionv1.Operation, cronJob string) *admissionv1.AdmissionResponse {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(cronJob))
	if err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{
		UID:       "7",
		Kind:      metav1.GroupVersionKind{Group: batchv1.GroupVersion.Group, Version: "v1", Kind: "CronJob"},
		Resource:  metav1.GroupVersionResource{Group: batchv1.GroupVersion.Group, Version: "v1", Resource: "cronjobs"},
		Operation: operation,
	}
	if operation != admissionv1.Delete {
		request.Object = runtime.RawExtension{Raw: object}
	}
	if operation != admissionv1.Create {
		request.OldObject = runtime.RawExtension{Raw: object}
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	hooks.ServeHTTP(w, r)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if answer.Response == nil || answer.Response.UID != "7" {
		t.Fatalf("answer %s", w.Body)
	}
	return answer.Response
}

// cronJobYAML is a CronJob with a name and a spec.
func cronJobYAML(name, spec string) string {
	return "apiVersion: batch.tutorial.kubebuilder.io/v1\nkind: CronJob\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func TestDefaults(t *testing.T) {
	hooks := hooks(t)
	for _, tt := range []struct{ name, spec, want string }{
		{"all open", `{schedule: "* * * * *"}`,
			`{schedule: "* * * * *", concurrencyPolicy: Allow, suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1}`},
		{"all said", `{concurrencyPolicy: Forbid, suspend: true, successfulJobsHistoryLimit: 5, failedJobsHistoryLimit: 4}`,
			`{concurrencyPolicy: Forbid, suspend: true, successfulJobsHistoryLimit: 5, failedJobsHistoryLimit: 4}`},
		{"zero is a word", `{concurrencyPolicy: Replace, suspend: false, successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 0}`,
			`{concurrencyPolicy: Replace, suspend: false, successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 0}`},
		{"what it does not know stays", `{comingSoon: 1, suspend: true}`,
			`{concurrencyPolicy: Allow, suspend: true, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1}`},
	} {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			cronJob := cronJobYAML("hello", tt.spec)
			response := review(t, hooks, mutatePath, operation, cronJob)
			if !response.Allowed {
				t.Errorf("%s: %s refused: %v", tt.name, operation, response.Result)
				continue
			}
			got := patched(t, cronJob, response.Patch)
			if diff := cmp.Diff(decoded(t, []byte(cronJobYAML("hello", tt.want))), decoded(t, got)); diff != "" {
				t.Errorf("%s, %s: %s", tt.name, operation, diff)
			}
			if strings.Contains(cronJob, "comingSoon") && !strings.Contains(string(got), "comingSoon") {
				t.Errorf("%s, %s: what the type does not know is lost: %s", tt.name, operation, got)
			}
		}
	}
}

// patched applies a JSON patch to YAML.
func patched(t *testing.T, doc string, patch []byte) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil || patch == nil {
		return data
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err == nil {
		data, err = p.Apply(data)
	}
	if err != nil {
		t.Fatalf("patch %s: %v", patch, err)
	}
	return data
}

func decoded(t *testing.T, doc []byte) *batchv1.CronJob {
	t.Helper()
	var c batchv1.CronJob
	if err := yaml.Unmarshal(doc, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestValidation(t *testing.T) {
	hooks := hooks(t)
	long := strings.Repeat("n", 53)
	for _, tt := range []struct {
		name, cronJob, spec string
		want                string   // "": it passes
		fields              []string // that are wrong
	}{
		{name: "good", cronJob: "hello", spec: `{schedule: "*/1 * * * *"}`},
		{name: "descriptor", cronJob: "hello", spec: `{schedule: "@daily"}`},
		{name: "time zone", cronJob: "hello", spec: `{schedule: "CRON_TZ=Asia/Tokyo 0 9 * * *"}`},
		{name: "longest name", cronJob: long[:52], spec: `{schedule: "@hourly"}`},
		{name: "name too long", cronJob: long, spec: `{schedule: "@hourly"}`, fields: []string{"metadata.name"},
			want: `CronJob.batch.tutorial.kubebuilder.io "` + long + `" is invalid: metadata.name: Invalid value: "` + long + `": must be no more than 52 characters`},
		{name: "no cron", cronJob: "hello", spec: `{schedule: "every day"}`, fields: []string{"spec.schedule"},
			want: `CronJob.batch.tutorial.kubebuilder.io "hello" is invalid: spec.schedule: Invalid value: "every day": expected exactly 5 fields, found 2: [every day]`},
		{name: "no such minute", cronJob: "hello", spec: `{schedule: "61 * * * *"}`, fields: []string{"spec.schedule"},
			want: `CronJob.batch.tutorial.kubebuilder.io "hello" is invalid: spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61`},
		{name: "time zone alone", cronJob: "hello", spec: `{schedule: TZ=UTC}`, fields: []string{"spec.schedule"},
			want: `CronJob.batch.tutorial.kubebuilder.io "hello" is invalid: spec.schedule: Invalid value: "TZ=UTC": a schedule must follow the time zone`},
		{name: "both", cronJob: long, spec: `{schedule: ""}`, fields: []string{"metadata.name", "spec.schedule"},
			want: `CronJob.batch.tutorial.kubebuilder.io "` + long + `" is invalid: [metadata.name: Invalid value: "` + long +
				`": must be no more than 52 characters, spec.schedule: Invalid value: "": empty spec string]`},
	} {
		cronJob := cronJobYAML(tt.cronJob, tt.spec)
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete} {
			response := review(t, hooks, validatePath, operation, cronJob)
			if tt.want == "" || operation == admissionv1.Delete {
				if !response.Allowed {
					t.Errorf("%s: %s refused: %v", tt.name, operation, response.Result)
				}
				continue
			}
			if response.Allowed {
				t.Errorf("%s: %s passes", tt.name, operation)
				continue
			}
			result := response.Result
			if result.Message != tt.want || result.Code != http.StatusUnprocessableEntity || result.Reason != metav1.StatusReasonInvalid {
				t.Errorf("%s: %s: %d %s %q\nwant %q", tt.name, operation, result.Code, result.Reason, result.Message, tt.want)
			}
			var fields []string
			for _, cause := range result.Details.Causes {
				fields = append(fields, cause.Field)
			}
			if diff := cmp.Diff(tt.fields, fields); diff != "" {
				t.Errorf("%s: %s: %s", tt.name, operation, diff)
			}
		}
	}
}
