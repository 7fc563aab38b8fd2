package builtin

import (
	"encoding/json"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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
		if got := string(asInternal(c.value)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	const start = `{"name":"n","labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,`
	if got := string(asInternal(&template)); got[:len(start)] != start {
		t.Errorf("got %s", got)
	}
}

// TestAsInternalIsJSON encodes random objects.
func TestAsInternalIsJSON(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	fill := filler(seed)
	for _, d := range Definitions() {
		for range 20 {
			obj := d.Storage.Model.New()
			fill.Fill(obj)
			if text := asInternal(obj); !json.Valid(text) {
				t.Fatalf("%s: %s", d.Plural, text)
			}
		}
	}
}
