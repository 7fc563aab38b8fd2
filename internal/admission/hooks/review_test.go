package hooks

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
)

// theirs returns what Kubernetes reads in a response.
func theirs(r *review, mutates bool) (*answer, error) {
	a, err := webhookrequest.VerifyAdmissionResponse(r.uid, mutates, r.response)
	if err != nil {
		return nil, err
	}
	return &answer{
		Allowed: a.Allowed, Result: a.Result, Patch: a.Patch, PatchType: a.PatchType, AuditAnnotations: a.AuditAnnotations, Warnings: a.Warnings,
	}, nil
}

// same compares the result for a response with that of Kubernetes.
func same(t *testing.T, r *review, mutates bool) {
	t.Helper()
	got, err := r.answer(mutates)
	want, wantErr := theirs(r, mutates)
	switch {
	case (err == nil) != (wantErr == nil), err != nil && err.Error() != wantErr.Error(), !equality.Semantic.DeepEqual(got, want):
		t.Errorf("of %#v\ngot  %+v, %v\nwant %+v, %v", r.response, got, err, want, wantErr)
	}
	if err == nil && !got.Allowed {
		theirs := webhookerrors.ToStatusErr("w", got.Result.DeepCopy())
		if ours := refusal("w", got.Result.DeepCopy()); !reflect.DeepEqual(ours, theirs) {
			t.Errorf("of %#v\ngot  %v\nwant %v", got.Result, ours, theirs)
		}
	}
}

// TestAnswers compares the results for random responses with those of k8s.io/apiserver.
func TestAnswers(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		same(t, randomReview(r), r.IntN(2) == 0)
	}
}

func randomReview(r *rand.Rand) *review {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	var response *admissionv1.AdmissionResponse
	if r.IntN(20) > 0 {
		response = &admissionv1.AdmissionResponse{Allowed: r.IntN(2) == 0}
		if r.IntN(10) > 0 {
			response.UID = "u"
		}
		if r.IntN(2) == 0 {
			response.Patch = []byte(one("", "[]", "[{}]"))
		}
		if r.IntN(2) == 0 {
			response.PatchType = new(admissionv1.PatchType(one("JSONPatch", "", "Other")))
		}
		if r.IntN(3) > 0 {
			response.Result = &metav1.Status{
				Status: one("", metav1.StatusSuccess, metav1.StatusFailure, "x"), Message: one("", "m"),
				Reason: metav1.StatusReason(one("", "Invalid")), Code: []int32{0, 200, 399, 400, 422, 700}[r.IntN(6)],
			}
		}
		if r.IntN(3) == 0 {
			response.Warnings, response.AuditAnnotations = []string{"w"}, map[string]string{"a": "b"}
		}
	}
	meta := metav1.TypeMeta{Kind: one("AdmissionReview", "AdmissionReview", "", "Other"), APIVersion: one("admission.k8s.io/v1", "admission.k8s.io/v1", "admission.k8s.io/v1beta1", "", "a/b/c")}
	if r.IntN(3) > 0 {
		return &review{uid: "u", response: &admissionv1.AdmissionReview{TypeMeta: meta, Response: response}}
	}
	old := &admissionv1beta1.AdmissionReview{TypeMeta: meta}
	if response != nil {
		old.Response = &admissionv1beta1.AdmissionResponse{
			UID: response.UID, Allowed: response.Allowed, Result: response.Result, Patch: response.Patch,
			PatchType: (*admissionv1beta1.PatchType)(response.PatchType), AuditAnnotations: response.AuditAnnotations, Warnings: response.Warnings,
		}
	}
	return &review{uid: "u", response: old}
}

// FuzzAnswer decodes any bytes as a response, and compares the result with that of Kubernetes.
func FuzzAnswer(f *testing.F) {
	for _, review := range []any{
		admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"}, Response: &admissionv1.AdmissionResponse{UID: "u", Allowed: true}},
		admissionv1beta1.AdmissionReview{Response: &admissionv1beta1.AdmissionResponse{Patch: []byte("[]")}},
		metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure"},
	} {
		data, err := json.Marshal(review)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, true, true)
		f.Add(data, false, false)
	}
	codec := codecs().SupportedMediaTypes()[0].Serializer
	f.Fuzz(func(t *testing.T, data []byte, v1, mutates bool) {
		var into runtime.Object = &admissionv1beta1.AdmissionReview{}
		if v1 {
			into = &admissionv1.AdmissionReview{}
		}
		if _, _, err := codec.Decode(data, nil, into); err == nil {
			same(t, &review{uid: "u", response: into}, mutates)
		}
	})
}
