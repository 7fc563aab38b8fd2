package endpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func encodeProtobuf(t testing.TB, obj runtime.Object) string {
	t.Helper()
	encoded, err := runtime.Encode(protobuf.NewSerializer(nil, nil), obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

type message[T any] interface {
	*T
	Unmarshal([]byte) error
}

func decodeProtobuf[T any, P message[T]](t testing.TB, text, wantKind string) T {
	t.Helper()
	envelope, err := openEnvelope([]byte(text))
	if err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if kind := envelope.APIVersion + " " + envelope.Kind; kind != wantKind {
		t.Errorf("envelope of %s, want %s", kind, wantKind)
	}
	var v T
	if err := P(&v).Unmarshal(envelope.Raw); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestProtobuf(t *testing.T) {
	s := newServer(t)
	in := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
	in.Name, in.Kind, in.APIVersion = "a", "ConfigMap", "v1"
	text := s.must(201, "POST", configMapPath, encodeProtobuf(t, in), "Content-Type", contentTypeProtobuf, "Accept", contentTypeProtobuf)
	made := decodeProtobuf[corev1.ConfigMap](t, text, "v1 ConfigMap")
	if made.Data["k"] != "v" || made.ResourceVersion != "2" {
		t.Errorf("made %+v", made)
	}

	text = s.must(200, "GET", configMapPath, "", "Accept", contentTypeProtobuf)
	list := decodeProtobuf[corev1.ConfigMapList](t, text, "v1 ConfigMapList")
	if diff := cmp.Diff([]corev1.ConfigMap{made}, list.Items); diff != "" || list.ResourceVersion != "2" {
		t.Errorf("list at %s:\n%s", list.ResourceVersion, diff)
	}

	for _, version := range []string{"v1", "v1beta1"} {
		accept := contentTypeProtobuf + ";g=meta.k8s.io;v=" + version
		text = s.must(200, "GET", configMapPath+"/a", "", "Accept", accept+";as=PartialObjectMetadata")
		partial := decodeProtobuf[metav1.PartialObjectMetadata](t, text, "meta.k8s.io/"+version+" PartialObjectMetadata")
		if partial.Name != "a" || partial.ResourceVersion != "2" {
			t.Errorf("partial: %+v", partial)
		}
		text = s.must(200, "GET", configMapPath, "", "Accept", accept+";as=PartialObjectMetadataList")
		partials := decodeProtobuf[metav1.PartialObjectMetadataList](t, text, "meta.k8s.io/"+version+" PartialObjectMetadataList")
		if len(partials.Items) != 1 || partials.Items[0].UID != made.UID {
			t.Errorf("partials: %+v", partials)
		}
	}

	text = s.must(404, "GET", configMapPath+"/b", "", "Accept", contentTypeProtobuf)
	if status := decodeProtobuf[metav1.Status](t, text, "v1 Status"); status.Reason != metav1.StatusReasonNotFound {
		t.Errorf("status: %+v", status)
	}
	text = s.must(400, "POST", configMapPath, "{}", "Content-Type", contentTypeProtobuf)
	if !strings.Contains(text, "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})") {
		t.Errorf("no protobuf: %s", text)
	}
}

func TestScaleProtobuf(t *testing.T) {
	s := newServer(t)
	made := decode[metav1.PartialObjectMetadata](t, s.must(201, "POST", widgetPath, widget("a", `,"spec":{"replicas":2}`)))
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	scale.Name, scale.Namespace, scale.ResourceVersion = "a", "default", made.ResourceVersion
	scale.Kind, scale.APIVersion = "Scale", "autoscaling/v1"
	text := s.must(200, "PUT", widgetPath+"/a/scale", encodeProtobuf(t, scale), "Content-Type", contentTypeProtobuf)
	if got := decode[autoscalingv1.Scale](t, text); got.Spec.Replicas != 4 {
		t.Errorf("scale: %s", text)
	}
}

func TestAppendRevised(t *testing.T) {
	in := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
	in.Name, in.Kind, in.APIVersion, in.ResourceVersion = "a", "ConfigMap", "v1", "7"
	in.Labels = map[string]string{"l": "m"}
	revised, err := appendRevised(nil, []byte(encodeProtobuf(t, in)), 1234)
	if err != nil {
		t.Fatal(err)
	}
	want := in.DeepCopy()
	want.ResourceVersion, want.TypeMeta = "1234", metav1.TypeMeta{}
	if diff := cmp.Diff(*want, decodeProtobuf[corev1.ConfigMap](t, string(revised), "v1 ConfigMap")); diff != "" {
		t.Error(diff)
	}
}
