package controller_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A Note is a custom kind, whose text goes to a ConfigMap.
type Note struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              NoteSpec   `json:"spec"`
	Status            NoteStatus `json:"status,omitzero"`
}

type NoteSpec struct {
	Text string `json:"text"`
}

type NoteStatus struct {
	Written string `json:"written,omitempty"`
}

func (n *Note) DeepCopyObject() runtime.Object {
	c := *n
	c.ObjectMeta = *n.ObjectMeta.DeepCopy()
	return &c
}

// A NoteList is a list of Notes.
type NoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Note `json:"items"`
}

func (l *NoteList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Note))
	}
	return &c
}

var notes = schema.GroupVersion{Group: "example.com", Version: "v1"}

// newScheme has Notes, definitions and the built-in kinds.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	s.AddKnownTypes(notes, &Note{}, &NoteList{})
	metav1.AddToGroupVersion(s, notes)
	return s
}

// definition is that of Notes.
func definition() *apiextensionsv1.CustomResourceDefinition {
	anything := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "notes.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: notes.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "notes", Singular: "note", Kind: "Note", ListKind: "NoteList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: notes.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything}},
			}},
		},
	}
}

// noteReconciler writes Notes to ConfigMaps, and records it in the status.
type noteReconciler struct {
	client.Client
	finalized []string
}

const finalizer = "example.com/note"

func (r *noteReconciler) Reconcile(ctx context.Context, note *Note) (ctrl.Result, error) {
	if !note.DeletionTimestamp.IsZero() {
		if client.RemoveFinalizer(note, finalizer) {
			r.finalized = append(r.finalized, note.Name)
			return ctrl.Result{}, r.Update(ctx, note)
		}
		return ctrl.Result{}, nil
	}
	if client.AddFinalizer(note, finalizer) {
		return ctrl.Result{}, r.Update(ctx, note)
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: note.Namespace, Name: note.Name}}
	if _, err := client.CreateOrUpdate(ctx, r.Client, written, func() error {
		written.Data = map[string]string{"text": note.Spec.Text}
		return ctrl.SetControllerReference(note, written, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if note.Status.Written == note.Spec.Text {
		return ctrl.Result{}, nil
	}
	note.Status.Written = note.Spec.Text
	return ctrl.Result{}, r.Status().Update(ctx, note)
}

// The controller starts before its kind exists, and goes on when that appears: Notes are written,
// repaired, finalized, and gone with what they own.
func TestCustomKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		c, err := client.New(server.Config(), client.Options{Scheme: newScheme(t)})
		if err != nil {
			t.Fatal(err)
		}
		var l logLines
		m, err := manager.New(server.Config(), manager.Options{Scheme: newScheme(t),
			Logger: logr.FromSlogHandler(slog.NewTextHandler(&l, nil))})
		if err != nil {
			t.Fatal(err)
		}
		r := &noteReconciler{Client: m.GetClient()}
		if err := ctrl.NewControllerManagedBy(m).For(&Note{}).Owns(&corev1.ConfigMap{}).
			Complete(ctrl.AsReconciler(m.GetClient(), r)); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- m.Start(running) }()
		time.Sleep(time.Minute)
		if err := c.Create(ctx, definition()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)

		note := &Note{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: NoteSpec{Text: "one"}}
		if err := c.Create(ctx, note); err != nil {
			t.Fatal(err)
		}
		expect := func(when, text string) {
			t.Helper()
			time.Sleep(time.Second)
			written := &corev1.ConfigMap{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(note), written); err != nil || written.Data["text"] != text {
				t.Errorf("%s: %q is written, %v", when, written.Data["text"], err)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(note), note); err != nil || note.Status.Written != text || note.Spec.Text != text {
				t.Errorf("%s: %+v, %v", when, note, err)
			}
		}
		expect("created", "one")
		note.Spec.Text = "two"
		if err := c.Update(ctx, note); err != nil {
			t.Fatal(err)
		}
		expect("updated", "two")
		if err := c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		expect("repaired", "two")
		if err := c.Delete(ctx, note); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, obj := range []client.Object{&Note{}, &corev1.ConfigMap{}} {
			if err := c.Get(ctx, client.ObjectKeyFromObject(note), obj); !apierrors.IsNotFound(err) {
				t.Errorf("%T is there after the deletion: %v", obj, err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(slices.Compact(r.finalized)) != 1 {
			t.Errorf("finalized: %v", r.finalized)
		}
		if lines := l.with("Reconciler error"); len(lines) > 0 {
			t.Errorf("errors: %s", strings.Join(lines, "\n"))
		}
		if lines := l.with("kind=Note.example.com"); len(lines) == 0 {
			t.Errorf("no log line says that the kind is missing")
		}
		if lines := l.with("controllerKind=Note"); len(lines) == 0 {
			t.Error("logs do not name the kind")
		}
	})
}
