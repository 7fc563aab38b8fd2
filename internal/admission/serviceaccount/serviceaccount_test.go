package serviceaccount

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t *testing.T, text string) resource.Tree {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := object.DecodeTree(data)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// newPlugin returns a plugin with accounts in the namespace lab.
func newPlugin(t *testing.T, accounts ...string) *Plugin {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{State: st}
	for _, a := range accounts {
		p.add(t, tree(t, a))
	}
	return p
}

func (p *Plugin) add(t *testing.T, account resource.Tree) {
	within(account, "metadata")["uid"] = "1"
	key := object.Key{Resource: schema.GroupResource{Resource: "serviceaccounts"}, Namespace: "lab", Name: text(within(account, "metadata"), "name")}
	o, err := object.New(key, account, 0, time.Now())
	if err == nil {
		_, err = p.State.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Object: o}}})
	}
	if err != nil {
		t.Error(err)
	}
}

func admitted(pod resource.Tree, op resource.Operation, subresource string) *resource.Admitted {
	v := &resource.Version{Name: "v1"}
	d := &resource.Definition{Plural: "pods", Kind: "Pod", Namespaced: true, Versions: []*resource.Version{v}, Storage: v}
	return &resource.Admitted{
		Request:   &resource.Request{Definition: d, Version: v, Namespace: "lab", Subresource: subresource},
		Operation: op, Object: pod,
	}
}

const (
	plain = `metadata: {name: default}`
	pulls = `{metadata: {name: puller}, imagePullSecrets: [{name: a}, {name: b}], automountServiceAccountToken: false}`
	quiet = `{metadata: {name: quiet, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}, secrets: [{name: mine}], imagePullSecrets: [{name: pull}]}`
)

func TestMutate(t *testing.T) {
	const volume = `{"name":"V","projected":{"defaultMode":420,"sources":[` +
		`{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},` +
		`{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},` +
		`{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}`
	const mount = `{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"V","readOnly":true}`
	for _, tc := range []struct{ name, spec, want string }{
		{"default", `{containers: [{name: a}], initContainers: [{name: b}]}`,
			`{"containers":[{"name":"a","volumeMounts":[` + mount + `]}],"initContainers":[{"name":"b","volumeMounts":[` + mount + `]}],` +
				`"serviceAccount":"default","serviceAccountName":"default","volumes":[` + volume + `]}`},
		{"no token", `{containers: [{name: a}], automountServiceAccountToken: false}`,
			`{"automountServiceAccountToken":false,"containers":[{"name":"a"}],"serviceAccount":"default","serviceAccountName":"default"}`},
		{"account wants none, and pulls", `{containers: [{name: a}], serviceAccountName: puller}`,
			`{"containers":[{"name":"a"}],"imagePullSecrets":[{"name":"a"},{"name":"b"}],"serviceAccountName":"puller"}`},
		{"pod pulls itself, and wants a token", `{containers: [], serviceAccountName: puller, imagePullSecrets: [{name: c}], automountServiceAccountToken: true}`,
			`{"automountServiceAccountToken":true,"containers":[],"imagePullSecrets":[{"name":"c"}],"serviceAccountName":"puller"}`},
		{"mounted by one", `{containers: [{name: a, volumeMounts: [{mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: x}]}, {name: b, volumeMounts: [{mountPath: /x, name: x}]}], volumes: [{name: x}]}`,
			`{"containers":[{"name":"a","volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"x"}]},` +
				`{"name":"b","volumeMounts":[{"mountPath":"/x","name":"x"},` + mount + `]}],"serviceAccount":"default","serviceAccountName":"default","volumes":[{"name":"x"},` + volume + `]}`},
		{"volume is there", `{containers: [{name: a}], volumes: [{name: kube-api-access-mine}]}`,
			`{"containers":[{"name":"a","volumeMounts":[` + strings.ReplaceAll(mount, `"V"`, `"kube-api-access-mine"`) + `]}],` +
				`"serviceAccount":"default","serviceAccountName":"default","volumes":[{"name":"kube-api-access-mine"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlugin(t, plain, pulls)
			pod := resource.Tree{"metadata": resource.Tree{"name": "p"}, "spec": tree(t, tc.spec)}
			if err := p.Mutate(t.Context(), admitted(pod, resource.OperationCreate, "")); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(pod["spec"])
			if err != nil {
				t.Fatal(err)
			}
			shown := string(got)
			for _, v := range maps(within(pod, "spec"), "volumes") {
				if name := text(v, "name"); strings.HasPrefix(name, tokenVolume) && name != "kube-api-access-mine" {
					if len(name) != len(tokenVolume)+5 {
						t.Errorf("the volume's name is %s", name)
					}
					shown = strings.ReplaceAll(shown, `"`+name+`"`, `"V"`)
				}
			}
			if shown != tc.want {
				t.Errorf("got  %s\nwant %s", shown, tc.want)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	const mirror = `annotations: {kubernetes.io/config.mirror: x}`
	const unknown = " is not allowed because service account quiet does not reference that "
	for _, tc := range []struct{ metadata, spec, want string }{
		{`name: p`, `serviceAccountName: none`, `pods "p" is forbidden: error looking up service account lab/none: serviceaccount "none" not found`},
		{`generateName: p-`, `serviceAccountName: none`, `pods "p-" is forbidden: error looking up service account lab/none: serviceaccount "none" not found`},
		{`{}`, `serviceAccountName: none`, `pods "Unknown" is forbidden: error looking up service account lab/none: serviceaccount "none" not found`},
		{`{name: p, ` + mirror + `}`, `{}`, ``},
		{`{name: p, ` + mirror + `}`, `serviceAccountName: default`, `pods "p" is forbidden: a mirror pod may not reference service accounts`},
		{`{name: p, ` + mirror + `}`, `volumes: [{secret: {secretName: a}}]`, `pods "p" is forbidden: a mirror pod may not reference secrets`},
		{`{name: p, ` + mirror + `}`, `volumes: [{csi: {nodePublishSecretRef: {name: a}}}]`, `pods "p" is forbidden: a mirror pod may not reference secrets`},
		{`{name: p, ` + mirror + `}`, `containers: [{envFrom: [{secretRef: {name: a}}]}]`, `pods "p" is forbidden: a mirror pod may not reference secrets`},
		{`{name: p, ` + mirror + `}`, `volumes: [{projected: {sources: [{serviceAccountToken: {path: a}}]}}]`,
			`pods "p" is forbidden: a mirror pod may not use ServiceAccountToken volume projections`},
		{`name: p`, `{serviceAccountName: quiet, volumes: [{secret: {secretName: mine}}]}`, ``},
		{`name: p`, `{serviceAccountName: quiet, volumes: [{secret: {secretName: other}}]}`,
			`pods "p" is forbidden: volume with secret.secretName="other"` + unknown + `secret`},
		{`name: p`, `{serviceAccountName: quiet, initContainers: [{name: c, env: [{name: E, valueFrom: {secretKeyRef: {name: other}}}]}]}`,
			`pods "p" is forbidden: init container c with envVar E referencing secret.secretName="other"` + unknown + `secret`},
		{`name: p`, `{serviceAccountName: quiet, containers: [{name: c, envFrom: [{secretRef: {name: other}}]}]}`,
			`pods "p" is forbidden: container c with envFrom referencing secret.secretName="other"` + unknown + `secret`},
		{`name: p`, `{serviceAccountName: quiet, imagePullSecrets: [{name: pull}, {name: other}]}`,
			`pods "p" is forbidden: imagePullSecrets[1].name="other"` + unknown + `imagePullSecret`},
		{`name: p`, `{serviceAccountName: quiet, containers: [{name: "%d", envFrom: [{secretRef: {name: "%s"}}]}]}`,
			`pods "p" is forbidden: container %d with envFrom referencing secret.secretName="%s"` + unknown + `secret`},
	} {
		p := newPlugin(t, plain, quiet)
		pod := resource.Tree{"metadata": tree(t, tc.metadata), "spec": tree(t, tc.spec)}
		err := p.Mutate(t.Context(), admitted(pod, resource.OperationCreate, ""))
		if got := fmt.Sprint(err); tc.want != "" && got != tc.want || tc.want == "" && err != nil {
			t.Errorf("%s %s: got %s\nwant %s", tc.metadata, tc.spec, got, tc.want)
		}
	}
	p := newPlugin(t, quiet)
	pod := tree(t, `{metadata: {name: p}, spec: {serviceAccountName: quiet, ephemeralContainers: [{name: c, envFrom: [{secretRef: {name: other}}]}]}}`)
	want := `pods "p" is forbidden: ephemeral container c with envFrom referencing secret.secretName="other"` + unknown + `secret`
	if err := p.Mutate(t.Context(), admitted(pod, resource.OperationUpdate, ephemeral)); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestWaitsForDefault checks that a pod that is created before the account default waits for it,
// for a limited time.
func TestWaitsForDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		pod := func() resource.Tree { return tree(t, `{metadata: {name: p}, spec: {containers: []}}`) }
		begin := time.Now()
		err := p.Mutate(t.Context(), admitted(pod(), resource.OperationCreate, ""))
		if want := `pods "p" is forbidden: error looking up service account lab/default: serviceaccount "default" not found`; fmt.Sprint(err) != want {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(begin); waited != patience {
			t.Errorf("waited for %v", waited)
		}
		time.AfterFunc(time.Second, func() { p.add(t, tree(t, plain)) })
		begin = time.Now()
		if err := p.Mutate(t.Context(), admitted(pod(), resource.OperationCreate, "")); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("waited for %v", waited)
		}
	})
}
