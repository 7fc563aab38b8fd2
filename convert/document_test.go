package convert_test

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/kapok-dev/kapok/convert"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The rows S8 to S15 of what the documents say about Scheme and Converter: the functions that they
// print for the apps group, in this package's words. Extensions/v1beta1 has what apps/v1 keeps in
// annotations, so it can be the hub.

func deploymentIn(in *appsv1.Deployment, hub *extensionsv1beta1.Deployment) error {
	revision := in.Annotations[appsv1.DeprecatedRollbackTo]
	if revision == "" {
		return nil
	}
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return fmt.Errorf("failed to parse annotation[%s]=%s as int64: %v", appsv1.DeprecatedRollbackTo, revision, err)
	}
	hub.Spec.RollbackTo = &extensionsv1beta1.RollbackConfig{Revision: n}
	delete(hub.Annotations, appsv1.DeprecatedRollbackTo)
	return nil
}

func deploymentOut(hub *extensionsv1beta1.Deployment, out *appsv1.Deployment) error {
	delete(out.Annotations, appsv1.DeprecatedRollbackTo)
	if hub.Spec.RollbackTo != nil {
		annotate(&out.ObjectMeta, appsv1.DeprecatedRollbackTo, hub.Spec.RollbackTo.Revision)
	}
	return nil
}

func daemonSetIn(in *appsv1.DaemonSet, hub *extensionsv1beta1.DaemonSet) (err error) {
	if generation, ok := in.Annotations[appsv1.DeprecatedTemplateGeneration]; ok {
		hub.Spec.TemplateGeneration, err = strconv.ParseInt(generation, 10, 64)
		delete(hub.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	return err
}

func daemonSetOut(hub *extensionsv1beta1.DaemonSet, out *appsv1.DaemonSet) error {
	annotate(&out.ObjectMeta, appsv1.DeprecatedTemplateGeneration, hub.Spec.TemplateGeneration)
	return nil
}

func annotate(meta *metav1.ObjectMeta, key string, value int64) {
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[key] = strconv.FormatInt(value, 10)
}

// statefulSet is a hub that no client sees.
type statefulSet struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   appsv1.StatefulSetSpec
	Status appsv1.StatefulSetStatus
}

func statefulSetIn(_ *appsv1.StatefulSet, hub *statefulSet) error {
	for i := range hub.Spec.VolumeClaimTemplates {
		hub.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
	}
	return nil
}

func statefulSetOut(_ *statefulSet, out *appsv1.StatefulSet) error {
	for i := range out.Spec.VolumeClaimTemplates {
		out.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
	return nil
}

// nothing is a rule for types whose fields differ in what the version beyond leaves out.
func nothing[A, B any](*A, *B) error { return nil }

func appsConverter(t *testing.T) (*convert.Converter, *runtime.Scheme) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, extensionsv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := convert.New(scheme,
		convert.Spoke(deploymentIn, deploymentOut),
		convert.Spoke(daemonSetIn, daemonSetOut),
		convert.Spoke(statefulSetIn, statefulSetOut),
		convert.Func(nothing[extensionsv1beta1.DeploymentSpec, appsv1.DeploymentSpec]),
		convert.Func(nothing[extensionsv1beta1.DaemonSetSpec, appsv1.DaemonSetSpec]),
		convert.FieldLabels[appsv1.StatefulSet](func(label, value string) (string, string, error) {
			if label == "status.successful" {
				return label, value, nil
			}
			return "", "", fmt.Errorf("field label not supported for appsv1.StatefulSet: %s", label)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return c, scheme
}

func TestDocument(t *testing.T) {
	apps, extensions := appsv1.SchemeGroupVersion, extensionsv1beta1.SchemeGroupVersion
	meta := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "x", Annotations: annotations}
	}
	rollback := func(revision string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta(map[string]string{"keep": "me", appsv1.DeprecatedRollbackTo: revision})}
	}
	typeMeta := func(gv schema.GroupVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
	}
	claims := func(meta metav1.TypeMeta) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{TypeMeta: typeMeta(apps, "StatefulSet"), Spec: appsv1.StatefulSetSpec{
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{TypeMeta: meta, ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		}}
	}
	for _, test := range []struct {
		row    string
		in     runtime.Object
		target schema.GroupVersion
		want   runtime.Object
		err    string
	}{
		{row: "S8 through the hub and back", in: rollback("3"), target: apps, want: &appsv1.Deployment{
			TypeMeta: typeMeta(apps, "Deployment"), ObjectMeta: rollback("3").ObjectMeta,
		}},
		{row: "S11 the annotation becomes rollbackTo", in: rollback("3"), target: extensions, want: &extensionsv1beta1.Deployment{
			TypeMeta: typeMeta(extensions, "Deployment"), ObjectMeta: meta(map[string]string{"keep": "me"}),
			Spec: extensionsv1beta1.DeploymentSpec{RollbackTo: &extensionsv1beta1.RollbackConfig{Revision: 3}},
		}},
		{row: "S11 rollbackTo becomes the annotation", target: apps, in: &extensionsv1beta1.Deployment{
			Spec: extensionsv1beta1.DeploymentSpec{RollbackTo: &extensionsv1beta1.RollbackConfig{Revision: 4}},
		}, want: &appsv1.Deployment{
			TypeMeta:   typeMeta(apps, "Deployment"),
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedRollbackTo: "4"}},
		}},
		{row: "S11 without rollbackTo the annotation goes", target: apps, in: &extensionsv1beta1.Deployment{
			ObjectMeta: meta(map[string]string{appsv1.DeprecatedRollbackTo: "9"}),
		}, want: &appsv1.Deployment{TypeMeta: typeMeta(apps, "Deployment"), ObjectMeta: meta(map[string]string{})}},
		{row: "S11 not a number", in: rollback("three"), target: extensions,
			err: `failed to parse annotation[deprecated.deployment.rollback.to]=three as int64: strconv.ParseInt: parsing "three": invalid syntax`},
		{row: "S12 the annotation becomes templateGeneration", target: extensions, in: &appsv1.DaemonSet{
			ObjectMeta: meta(map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}),
		}, want: &extensionsv1beta1.DaemonSet{
			TypeMeta: typeMeta(extensions, "DaemonSet"), ObjectMeta: meta(map[string]string{}),
			Spec: extensionsv1beta1.DaemonSetSpec{TemplateGeneration: 7},
		}},
		{row: "S12 templateGeneration becomes the annotation", target: apps, in: &extensionsv1beta1.DaemonSet{
			Spec: extensionsv1beta1.DaemonSetSpec{TemplateGeneration: 7},
		}, want: &appsv1.DaemonSet{
			TypeMeta:   typeMeta(apps, "DaemonSet"),
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}},
		}},
		{row: "S12 not a number", target: extensions, in: &appsv1.DaemonSet{
			ObjectMeta: meta(map[string]string{appsv1.DeprecatedTemplateGeneration: "x"}),
		}, err: `strconv.ParseInt: parsing "x": invalid syntax`},
		{row: "S13 claim templates are v1 PersistentVolumeClaims outward", target: apps,
			in: claims(metav1.TypeMeta{APIVersion: "v0", Kind: "Else"}), want: claims(metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"})},
		{row: "S15 unknown target", in: rollback("3"), target: schema.GroupVersion{Group: "apps", Version: "v9"},
			err: "not known to the converter: Deployment has no version apps/v9, but extensions/v1beta1, apps/v1"},
		{row: "S15 no target", in: &extensionsv1beta1.DaemonSet{}, want: &extensionsv1beta1.DaemonSet{TypeMeta: typeMeta(extensions, "DaemonSet")}},
	} {
		t.Run(test.row, func(t *testing.T) {
			c, _ := appsConverter(t)
			before := test.in.DeepCopyObject()
			got, err := c.To(test.in, test.target)
			if diff := cmp.Diff(before, test.in); diff != "" {
				t.Errorf("the input has changed:\n%s", diff)
			}
			if err != nil || test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error is %v\nwant     %s", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// S10: field labels, S9 and S10: ignored conversions.
func TestDocumentLabels(t *testing.T) {
	c, scheme := appsConverter(t)
	for _, test := range []struct{ kind, label, err string }{
		{"StatefulSet", "status.successful", ""},
		{"StatefulSet", "spec.x", "field label not supported for appsv1.StatefulSet: spec.x"},
		{"Deployment", "metadata.name", ""},
		{"Deployment", "spec.x", `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	} {
		label, value, err := c.ConvertFieldLabel(appsv1.SchemeGroupVersion.WithKind(test.kind), test.label, "v")
		if test.err == "" && (err != nil || label != test.label || value != "v") {
			t.Errorf("%s %s: %q, %q, %v", test.kind, test.label, label, value, err)
		}
		if test.err != "" && (err == nil || err.Error() != test.err) {
			t.Errorf("%s %s: error is %v, want %s", test.kind, test.label, err, test.err)
		}
	}

	ignoring, err := convert.New(scheme,
		convert.Spoke[extensionsv1beta1.Deployment, appsv1.Deployment](nil, nil),
		convert.Ignore[appsv1.DeploymentSpec, extensionsv1beta1.DeploymentSpec](),
		convert.Ignore[extensionsv1beta1.DeploymentSpec, appsv1.DeploymentSpec](),
	)
	if err != nil {
		t.Fatal(err)
	}
	in := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: appsv1.DeploymentSpec{Paused: true}}
	out, err := ignoring.To(in, extensionsv1beta1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if d := out.(*extensionsv1beta1.Deployment); d.Name != "x" || d.Spec.Paused {
		t.Errorf("got %+v", d)
	}
}

// S2: what comes out shares nothing with what went in.
func TestDocumentSharesNothing(t *testing.T) {
	c, _ := appsConverter(t)
	in := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
	}
	converted, err := c.To(in, extensionsv1beta1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	out, before := converted.(*extensionsv1beta1.Deployment), in.DeepCopy()
	maps.DeleteFunc(out.Annotations, func(string, string) bool { return true })
	out.Spec.Template.Spec.Containers[0].Name = "changed"
	if diff := cmp.Diff(before, in); diff != "" {
		t.Error(diff)
	}
}
