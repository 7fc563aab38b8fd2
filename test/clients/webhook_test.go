package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
	"github.com/kapok-dev/kapok/webhook"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestDefaultersAgree checks that package webhook handles Pods like controller-runtime: the same
// decision, and a patch that results in the same Pod. Unknown fields of list elements move with
// their element here, and stay at their index there: so documents are equal only if the option
// drops unknown fields.
func TestDefaultersAgree(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 3000 {
		raw := randomPod(r)
		change := randomDefaulter(r.Uint64())
		var ourOptions []webhook.DefaulterOption
		var theirOptions []admission.DefaulterOption
		pruned := i%4 == 0
		if pruned {
			ourOptions = append(ourOptions, webhook.DefaulterRemoveUnknownOrOmitableFields)
			theirOptions = append(theirOptions, admission.DefaulterRemoveUnknownOrOmitableFields)
		}
		request := admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)}}
		ours := webhook.WithDefaulter[*corev1.Pod](scheme.Scheme, change, ourOptions...).
			Handle(t.Context(), webhook.Request{AdmissionRequest: request}).AdmissionResponse
		theirs := admission.WithDefaulter[*corev1.Pod](scheme.Scheme, change, theirOptions...).
			Handle(t.Context(), admission.Request{AdmissionRequest: request}).AdmissionResponse

		our, ourPod := patched(t, raw, ours.Patch)
		their, theirPod := patched(t, raw, theirs.Patch)
		ours.Patch, theirs.Patch = nil, nil
		if pruned && !reflect.DeepEqual(our, their) || !reflect.DeepEqual(ourPod, theirPod) {
			t.Fatalf("raw    %s\nours   %v\ntheirs %v", raw, our, their)
		}
		if ours.PatchType, theirs.PatchType = nil, nil; !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("raw    %s\nours   %+v\ntheirs %+v", raw, ours, theirs)
		}
	}
}

// patched applies a patch as an API server does.
func patched(t *testing.T, doc string, patch []byte) (text any, pod corev1.Pod) {
	t.Helper()
	out := []byte(doc)
	if len(patch) > 0 {
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = p.Apply(out); err != nil {
			t.Fatalf("%s of %s: %v", patch, doc, err)
		}
	}
	if err := errors.Join(json.Unmarshal(out, &text), json.Unmarshal(out, &pod)); err != nil {
		t.Fatal(err)
	}
	return text, pod
}

// A randomDefaulter makes changes determined by its seed.
type randomDefaulter uint64

func (d randomDefaulter) Default(_ context.Context, p *corev1.Pod) error {
	r := rand.New(rand.NewPCG(uint64(d), 1))
	for range r.IntN(4) {
		containers := p.Spec.Containers
		switch what := r.IntN(8); {
		case what == 0:
			p.Labels = map[string]string{"a/b": "c"}
		case what == 1:
			p.Labels = nil
		case what == 2:
			p.Spec.HostNetwork = !p.Spec.HostNetwork
		case what == 3:
			p.Spec.Priority = new(int32(r.IntN(2)))
		case what == 4:
			p.Spec.Containers = append(containers, corev1.Container{Name: "side"})
		case len(containers) == 0:
		case what == 5:
			containers[r.IntN(len(containers))].Image = "new"
		case what == 6:
			containers[0].Env = append([]corev1.EnvVar{{Name: "first"}}, containers[0].Env...)
		case what == 7:
			containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1000m")}
		}
	}
	switch r.IntN(10) {
	case 0:
		return errors.New("refused")
	case 1:
		return fmt.Errorf("wrapped: %w", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), p.Name,
			field.ErrorList{field.Required(field.NewPath("spec"), "say more")}))
	}
	return nil
}

// randomPod returns a Pod in JSON, with unknown fields, zero values and values in other forms than
// the type encodes.
func randomPod(r *rand.Rand) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	container := func(name string) string {
		return `{"name":"` + name + `"` + pick(``, `,"image":"x"`, `,"unknown":{"a":1}`) +
			pick(``, `,"env":[{"name":"E","value":""}]`, `,"env":[{"name":"E","unknown":1},{"name":"F"}]`) +
			pick(``, `,"resources":{}`, `,"resources":{"requests":{"cpu":"1000m"}}`) + pick(``, `,"stdin":false`) + `}`
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"` + pick(``, `,"labels":{"x":"y"}`, `,"labels":{}`, `,"labels":null`) +
		pick(``, `,"unknown":[1,2]`) + `},"spec":{"containers":[` + pick(``, container("a"), container("a")+","+container("b")) + `]` +
		pick(``, `,"hostNetwork":true`, `,"hostNetwork":false`) + pick(``, `,"priority":0`) + pick(``, `,"unknown":"z"`) + `}` +
		pick(``, `,"status":{}`, `,"status":{"phase":"Running"}`, `,"unknown":1`) + `}`
}
