package webhook_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/kapok-dev/kapok/webhook"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// PullPolicy sets the pull policy of new Pods to Always.
type PullPolicy struct{}

func (PullPolicy) Default(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].ImagePullPolicy == "" {
			pod.Spec.Containers[i].ImagePullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// Tags rejects images without a tag.
type Tags struct{}

func (Tags) ValidateCreate(ctx context.Context, pod *corev1.Pod) (webhook.Warnings, error) {
	var errs field.ErrorList
	for i, c := range pod.Spec.Containers {
		if !strings.Contains(c.Image, ":") {
			errs = append(errs, field.Invalid(field.NewPath("spec", "containers").Index(i).Child("image"), c.Image, "must have a tag"))
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, errs)
	}
	return webhook.Warnings{"tags may move"}, nil
}

func (t Tags) ValidateUpdate(ctx context.Context, _, pod *corev1.Pod) (webhook.Warnings, error) {
	return t.ValidateCreate(ctx, pod)
}

func (Tags) ValidateDelete(context.Context, *corev1.Pod) (webhook.Warnings, error) { return nil, nil }

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
	"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "object":
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}}`

func ExampleDefaulter() {
	hook := webhook.WithDefaulter[*corev1.Pod](scheme.Scheme, PullPolicy{})

	req := httptest.NewRequest("POST", "/mutate--v1-pod", strings.NewReader(review))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	hook.ServeHTTP(answer, req)
	fmt.Println(answer.Code, strings.Contains(answer.Body.String(), `"patchType":"JSONPatch"`))
	// Output: 200 true
}

func ExampleValidator() {
	hook := webhook.WithValidator[*corev1.Pod](scheme.Scheme, Tags{})

	req := httptest.NewRequest("POST", "/validate--v1-pod", strings.NewReader(review))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	hook.ServeHTTP(answer, req)
	fmt.Println(answer.Body)
	// Output: {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","allowed":false,"status":{"metadata":{},"status":"Failure","message":"Pod \"web\" is invalid: spec.containers[0].image: Invalid value: \"nginx\": must have a tag","reason":"Invalid","details":{"name":"web","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"nginx\": must have a tag","field":"spec.containers[0].image"}]},"code":422}}}
}

// A handler gets the unprocessed request.
func ExampleHandlerFunc() {
	server := webhook.NewServer(webhook.Options{CertDir: "/etc/webhook"})
	server.Register("/validate-names", &webhook.Webhook{Handler: webhook.HandlerFunc(func(_ context.Context, req webhook.Request) webhook.Response {
		if strings.HasPrefix(req.Name, "tmp-") && req.UserInfo.Username != "janitor" {
			return webhook.Denied("names with tmp- are the janitor's")
		}
		return webhook.Allowed("")
	})})

	body := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "name": "tmp-a"}}`
	req := httptest.NewRequest("POST", "/validate-names", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	server.WebhookMux().ServeHTTP(answer, req)
	fmt.Println(answer.Body)
	// Output: {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":false,"status":{"metadata":{},"message":"names with tmp- are the janitor's","reason":"Forbidden","code":403}}}
}
