package clients

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A Pot has a size: in v1, the hub, a number; in v1alpha1 a text.
type (
	Pot struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Size              int       `json:"size,omitempty"`
		Status            PotStatus `json:"status,omitzero"`
	}
	PotStatus struct {
		Full bool `json:"full,omitempty"`
	}
	PotV1alpha1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Size              string `json:"size,omitempty"`
	}
	PotList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []Pot `json:"items"`
	}
)

func (p *Pot) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

func (p *PotV1alpha1) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

func (l *PotList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Pot))
	}
	return &c
}

// Hub implements conversion.Hub.
func (*Pot) Hub() {}

// ConvertTo implements conversion.Convertible.
func (p *PotV1alpha1) ConvertTo(hub conversion.Hub) (err error) {
	to := hub.(*Pot)
	to.ObjectMeta = p.ObjectMeta
	to.Size, err = strconv.Atoi(p.Size)
	return err
}

// ConvertFrom implements conversion.Convertible.
func (p *PotV1alpha1) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Pot)
	p.ObjectMeta = from.ObjectMeta
	p.Size = strconv.Itoa(from.Size)
	return nil
}

// potHooks give pots a size, and refuse some.
type potHooks struct{}

func (potHooks) Default(_ context.Context, p *Pot) error {
	if p.Size == 0 {
		p.Size = 5
	}
	return nil
}

func (potHooks) ValidateCreate(_ context.Context, p *Pot) (admission.Warnings, error) {
	if p.Size > 9 {
		return nil, errors.New("too large")
	}
	return nil, nil
}

func (h potHooks) ValidateUpdate(ctx context.Context, _, p *Pot) (admission.Warnings, error) {
	return h.ValidateCreate(ctx, p)
}

func (potHooks) ValidateDelete(context.Context, *Pot) (admission.Warnings, error) { return nil, nil }

// The manifests of an operator of pots, as kubebuilder makes them.
var potManifests = map[string]string{
	"crd/bases/example.com_pots.yaml": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pots.example.com}
spec:
  group: example.com
  names: {kind: Pot, plural: pots}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}, status: {type: object, properties: {full: {type: boolean}}}}}}
  - name: v1alpha1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: string}}}}
`,
	"webhook/manifests.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-example-com-v1-pot}}
  failurePolicy: Fail
  name: mpot.kb.io
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pots]}]
  sideEffects: None
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-example-com-v1-pot}}
  failurePolicy: Fail
  name: vpot.kb.io
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pots]}]
  sideEffects: None
`,
	"rbac/role.yaml": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules:
- {apiGroups: [example.com], resources: [pots], verbs: [get, list, watch]}
- {apiGroups: [example.com], resources: [pots/status], verbs: [get, patch, update]}
`,
	"rbac/role_binding.yaml": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
`,
	"rbac/service_account.yaml": `
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller-manager, namespace: system}
`,
}

// TestOperatorInside runs an operator of controller-runtime as in a cluster, but in virtual time: as its service account, with the
// rights of its manifests, for longer than a token holds, and with webhooks of admission and of conversion, none of which listens.
func TestOperatorInside(t *testing.T) {
	dir := t.TempDir()
	for name, text := range potManifests {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	kinds := runtime.NewScheme()
	if err := scheme.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	v1, v1alpha1 := schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v1alpha1"}
	kinds.AddKnownTypes(v1, &Pot{}, &PotList{})
	kinds.AddKnownTypeWithName(v1alpha1.WithKind("Pot"), &PotV1alpha1{})
	metav1.AddToGroupVersion(kinds, v1)
	metav1.AddToGroupVersion(kinds, v1alpha1)

	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr, err := ctrl.NewManager(env.ServiceAccount("system", "controller-manager"), ctrl.Options{
			Scheme:        kinds,
			Metrics:       server.Options{BindAddress: "0"},
			Controller:    config.Controller{SkipNameValidation: new(true)},
			WebhookServer: webhook.NewServer(webhook.Options{Port: -1, WebhookMux: env.WebhookMux()}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctrl.NewWebhookManagedBy(mgr, &Pot{}).WithDefaulter(potHooks{}).WithValidator(potHooks{}).Complete(); err != nil {
			t.Fatal(err)
		}
		err = ctrl.NewControllerManagedBy(mgr).For(&Pot{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			p := &Pot{}
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, p); err != nil || p.Status.Full {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			p.Status.Full = true
			return reconcile.Result{}, mgr.GetClient().Status().Update(ctx, p)
		}))
		if err != nil {
			t.Fatal(err)
		}
		env.Go(mgr.Start)

		for day := range 3 {
			p := &Pot{ObjectMeta: metav1.ObjectMeta{Name: "day-" + strconv.Itoa(day)}}
			env.Create(p)
			if p.Size != 5 {
				t.Errorf("its size is %d by default", p.Size)
			}
			env.WaitFor(t.Context(), p, func() bool { return p.Status.Full })
			time.Sleep(24 * time.Hour)
		}
		old := &PotV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "day-0", Namespace: "default"}}
		if env.Get(old); old.Size != "5" {
			t.Errorf("in v1alpha1 its size is %q", old.Size)
		}
		err = env.Client().Create(t.Context(), &PotV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "default"}, Size: "10"})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "too large") {
			t.Errorf("too large, and in another version: %v", err)
		}
		for _, r := range env.Refused() {
			if r.User != "" {
				t.Error(r)
			}
		}
	}, kapoktest.Scheme(kinds), kapoktest.CRDs(filepath.Join(dir, "crd/bases")), kapoktest.Objects(filepath.Join(dir, "rbac")),
		kapoktest.Webhooks(filepath.Join(dir, "webhook")))
}
