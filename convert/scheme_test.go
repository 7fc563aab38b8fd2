package convert_test

import (
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The rows S1 to S7 of what the documents say about the Scheme, which is apimachinery's, and on
// which this package builds.
func TestDocumentScheme(t *testing.T) {
	core, extensions := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "extensions", Version: "v1beta1"}
	internal := schema.GroupVersion{Version: runtime.APIVersionInternal}
	example := func() *runtime.Scheme { // as document 2 prints it
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(core, &corev1.Pod{})
		scheme.AddKnownTypes(extensions, &appsv1.DaemonSet{})
		scheme.AddKnownTypes(internal, &corev1.Pod{})
		scheme.AddUnversionedTypes(core, &metav1.Status{})
		return scheme
	}
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}

	t.Run("S1 names of groups, versions, resources and kinds", func(t *testing.T) {
		gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		if gvr.GroupVersion().String() != "apps/v1" || gvr.GroupResource().String() != "deployments.apps" {
			t.Errorf("%s", gvr)
		}
		if got := gvr.GroupVersion().WithKind("Deployment").String(); got != "apps/v1, Kind=Deployment" {
			t.Errorf("kind is %s", got)
		}
	})
	t.Run("S3 kinds of a type and types of a kind", func(t *testing.T) {
		kinds, unversioned, err := example().ObjectKinds(&corev1.Pod{})
		if err != nil || unversioned || len(kinds) != 2 || !slices.Contains(kinds, core.WithKind("Pod")) || !slices.Contains(kinds, internal.WithKind("Pod")) {
			t.Errorf("%v %v %v", kinds, unversioned, err)
		}
		if got := example().AllKnownTypes()[extensions.WithKind("DaemonSet")]; got != reflect.TypeFor[appsv1.DaemonSet]() {
			t.Errorf("type is %v", got)
		}
	})
	t.Run("S4 what cannot be registered", func(t *testing.T) {
		scheme := example()
		scheme.AddKnownTypeWithName(extensions.WithKind("Daemon"), &appsv1.DaemonSet{})
		if !scheme.Recognizes(extensions.WithKind("Daemon")) {
			t.Error("the name that was given is not known")
		}
		if !panics(func() { scheme.AddKnownTypes(core, byValue{}) }) {
			t.Error("a type that is no pointer is registered")
		}
		if !panics(func() { scheme.AddUnversionedTypes(extensions, &Status{}) }) {
			t.Error("an unversioned kind is registered twice")
		}
	})
	t.Run("S5 queries", func(t *testing.T) {
		scheme := example()
		if got := len(scheme.KnownTypes(core)); got != 2 {
			t.Errorf("%d known types", got)
		}
		obj, err := scheme.New(core.WithKind("Pod"))
		if _, ok := obj.(*corev1.Pod); !ok || err != nil {
			t.Errorf("made %T, %v", obj, err)
		}
		if _, err := scheme.New(core.WithKind("Node")); !runtime.IsNotRegisteredError(err) {
			t.Errorf("error is %v", err)
		}
		if !scheme.IsGroupRegistered("extensions") || scheme.IsGroupRegistered("apps") || !scheme.IsVersionRegistered(core) || scheme.IsVersionRegistered(appsv1.SchemeGroupVersion) {
			t.Error("groups and versions are not those that were registered")
		}
	})
	t.Run("S6 priority of versions", func(t *testing.T) {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{appsv1beta1.AddToScheme, appsv1beta2.AddToScheme, appsv1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		if err := scheme.SetVersionPriority(appsv1.SchemeGroupVersion, appsv1beta2.SchemeGroupVersion, appsv1beta1.SchemeGroupVersion); err != nil {
			t.Fatal(err)
		}
		of := func(gv schema.GroupVersion) bool { return gv.Group == "apps" }
		if got := scheme.PreferredVersionAllGroups(); slices.IndexFunc(got, of) < 0 || got[slices.IndexFunc(got, of)] != appsv1.SchemeGroupVersion {
			t.Errorf("preferred versions are %v", got)
		}
		if got := scheme.PrioritizedVersionsForGroup("apps"); len(got) != 3 || got[2] != appsv1beta1.SchemeGroupVersion {
			t.Errorf("priority is %v", got)
		}
	})
	t.Run("S7 unversioned types", func(t *testing.T) {
		scheme := runtime.NewScheme()
		metav1.AddToGroupVersion(scheme, core)
		for _, obj := range []runtime.Object{&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{}} {
			if unversioned, known := scheme.IsUnversioned(obj); !unversioned || !known {
				t.Errorf("%T is versioned", obj)
			}
		}
	})
}

// Status has the name of an unversioned kind.
type Status struct{ metav1.TypeMeta }

func (in *Status) DeepCopyObject() runtime.Object { out := *in; return &out }

// byValue is an object without a pointer.
type byValue struct{ metav1.TypeMeta }

func (in byValue) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (in byValue) DeepCopyObject() runtime.Object   { return in }
