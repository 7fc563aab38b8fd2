package rule

import (
	"encoding/json"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

func TestAsInternal(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{(*corev1.Toleration)(nil), `null`},
		{&corev1.PodReadinessGate{ConditionType: "a"}, `{"ConditionType":"a"}`},
		{corev1.ResourceRequirements{Limits: corev1.ResourceList{"b": resource.MustParse("1"), "a": resource.MustParse("2k")}},
			`{"Limits":{"a":"2k","b":"1"},"Requests":null,"Claims":null}`},
		{corev1.TCPSocketAction{Port: intstr.FromString("x")}, `{"Port":"x","Host":""}`},
		{corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "}"}}}.Template.ObjectMeta, `{}`},
		{[]corev1.Sysctl{{Name: "a"}}, `[{"Name":"a","Value":""}]`},
		{[]byte("a"), `"YQ=="`},
		{&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, `{"matchLabels":{"a":"b"}}`},
	} {
		if got := string(AsInternal(c.value)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	const start = `{"name":"n","labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,`
	if got := string(AsInternal(&template)); got[:len(start)] != start {
		t.Errorf("got %s", got)
	}
}

// TestAsInternalIsJSON encodes random objects.
func TestAsInternalIsJSON(t *testing.T) {
	seed := int64(seeds.Of(t))
	fill := randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Int31()), resource.DecimalSI)
		},
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawBytes([]byte(`{"f:a":{}}`)) },
	)
	for _, obj := range []any{&corev1.Pod{}, &corev1.Secret{}, &corev1.Event{}, &appsv1.Deployment{}, &batchv1.Job{}} {
		for range 20 {
			fill.Fill(obj)
			if text := AsInternal(obj); !json.Valid(text) {
				t.Fatalf("%T: %s", obj, text)
			}
		}
	}
}
