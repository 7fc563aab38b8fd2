package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// kubeadmManifest has the flags that kubeadm 1.37 sets.
const kubeadmManifest = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.0.0.5:6443
  labels: {component: kube-apiserver, tier: control-plane}
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=10.0.0.5
    - --allow-privileged=true
    - --authorization-mode=Node,RBAC
    - --client-ca-file=/etc/kubernetes/pki/ca.crt
    - --enable-admission-plugins=NodeRestriction
    - --enable-bootstrap-token-auth=true
    - --etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt
    - --etcd-certfile=/etc/kubernetes/pki/apiserver-etcd-client.crt
    - --etcd-keyfile=/etc/kubernetes/pki/apiserver-etcd-client.key
    - --etcd-servers=https://127.0.0.1:2379
    - --kubelet-client-certificate=/etc/kubernetes/pki/apiserver-kubelet-client.crt
    - --kubelet-client-key=/etc/kubernetes/pki/apiserver-kubelet-client.key
    - --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
    - --proxy-client-cert-file=/etc/kubernetes/pki/front-proxy-client.crt
    - --proxy-client-key-file=/etc/kubernetes/pki/front-proxy-client.key
    - --requestheader-allowed-names=front-proxy-client
    - --requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt
    - --requestheader-extra-headers-prefix=X-Remote-Extra-
    - --requestheader-group-headers=X-Remote-Group
    - --requestheader-username-headers=X-Remote-User
    - --secure-port=6443
    - --service-account-issuer=https://kubernetes.default.svc.cluster.local
    - --service-account-key-file=/etc/kubernetes/pki/sa.pub
    - --service-account-signing-key-file=/etc/kubernetes/pki/sa.key
    - --service-cluster-ip-range=10.96.0.0/12
    - --tls-cert-file=/etc/kubernetes/pki/apiserver.crt
    - --tls-private-key-file=/etc/kubernetes/pki/apiserver.key
    image: registry.k8s.io/kube-apiserver:v1.37.2
    name: kube-apiserver
`

// migrateText runs kapok config migrate on a text.
func migrateText(t *testing.T, text string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in")
	write(t, file, text)
	var out, errs bytes.Buffer
	code = run([]string{"config", "migrate", file}, &out, &errs)
	return code, out.String(), errs.String()
}

// TestMigrateKubeadm translates the manifest of kubeadm, and reads the result.
func TestMigrateKubeadm(t *testing.T) {
	code, stdout, stderr := migrateText(t, kubeadmManifest)
	if code != 0 || strings.Contains(stderr, "equivalent") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"listen: 0.0.0.0:6443\n", "store: etcd://127.0.0.1:2379\n", "advertiseAddress: 10.0.0.5\n", "controllers: []\n", "housekeeping:\n- -*\n",
		"authorizationMode:\n- Node\n- RBAC\n", "clientCaFile: /etc/kubernetes/pki/ca.crt\n", "tlsCertFile: /etc/kubernetes/pki/apiserver.crt\n",
		"kubeletPreferredAddressTypes:\n- InternalIP\n- ExternalIP\n- Hostname\n", "enableBootstrapTokenAuth: true\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	again, second, stderr := migrateText(t, stdout)
	if again != 0 || second != stdout || stderr != "" {
		t.Errorf("the result, once more: exit code %d, %s\n%s", again, stderr, second)
	}
	var checked, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "server.yaml")
	write(t, file, stdout)
	if code := run([]string{"config", "validate", file}, &checked, &errs); code != 0 {
		t.Errorf("the result is invalid: %s", &errs)
	}
}

func TestMigrate(t *testing.T) {
	const command = "kube-apiserver --etcd-servers=http://a:1,http://b:2 "
	for text, want := range map[string]struct {
		code int
		out  string // parts, separated by |
		errs string
	}{
		command: {0, "store: etcd://a:1,b:2\n|authorizationMode:\n- AlwaysAllow\n|serviceClusterIpRange: 10.0.0.0/24\n", "# kube-apiserver runs no controllers"},
		"# unit\n[Service]\nExecStart=-/usr/bin/" + command + "\\\n  --event-ttl 2h -v4 --bind-address=::\n": {0, `listen: '[::]:6443'|logLevel: debug|eventTtl: 2h0m0s`, ""},
		command + "--watch-cache-sizes=a#1 --delete-collection-workers 3 --enable-swagger-ui --watch-cache": {
			exitIncomplete, "store: etcd", "# --watch-cache-sizes=a#1: Kapok has no equivalent|# --delete-collection-workers=3: Kapok|# --enable-swagger-ui: kube-apiserver 1.37 has no such flag|some settings have no equivalent"},
		command + "--watch-cache=false": {exitIncomplete, "store: etcd", "# --watch-cache=false: Kapok has no equivalent"},
		command + "--enable-admission-plugins=NodeRestriction --runtime-config=made.up/v1=true,batch/v1=false --feature-gates=PodsAPI=false,ComponentFlagz=false": {
			exitIncomplete, "enableAdmissionPlugins:\n- NodeRestriction\n|runtimeConfig:\n  batch/v1: false\n|featureGates:\n  ComponentFlagz: false\n",
			"# --runtime-config=made.up/v1=true: |# --feature-gates: feature gate PodsAPI=false is not supported"},
		command + "--feature-gates=PodsAPI=false": {exitIncomplete, "store: etcd", "# --feature-gates: feature gate PodsAPI=false"},
		"kube-apiserver": {0, "housekeeping", "# there is no --etcd-servers"},
		"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    command: [sh]\n  - name: b\n    command: [/bin/sh, -c, exec kube-apiserver --secure-port=7 '--external-hostname=a']\n": {
			0, "listen: 0.0.0.0:7\n|externalHostname: a\n", ""},
		"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: kube-apiserver\n    args: [--secure-port=8]\n": {0, "listen: 0.0.0.0:8\n", ""},
		// Nothing is printed for what is invalid.
		command + "--event-ttl=soon":                {exitFailure, "", `--event-ttl: "soon" is not a duration`},
		command + "--authorization-mode=ABAC":       {exitFailure, "", `--authorization-mode "ABAC": want Node, RBAC`},
		command + "--etcd-prefix=$PREFIX":           {exitFailure, "", `'$', which a shell would expand`},
		command + "--etcd-prefix='/a":               {exitFailure, "", `a ' without an end`},
		command + "surplus":                         {exitFailure, "", `"surplus", which is no flag`},
		"kube-apiserver --etcd-servers=https://a:1": {exitFailure, "", "https needs --etcd-cafile"},
		"kube-scheduler --v=2":                      {exitFailure, "", "want a Pod that runs kube-apiserver"},
		"":                                          {exitFailure, "", "want a Pod that runs kube-apiserver"},
		"apiVersion: v1\nkind: ConfigMap\n":         {exitFailure, "", "kind ConfigMap: want a Pod"},
		"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, command: [sh]}]}\n":             {exitFailure, "", "no container of the pod runs kube-apiserver"},
		"apiVersion: v1\nkind: Pod\nspec: 1\n":                                                    {exitFailure, "", "spec"},
		"apiVersion: kapok.dev/v1alpha2\nkind: ServerConfiguration\n":                             {exitFailure, "", "want apiVersion: kapok.dev/v1alpha1"},
		"apiVersion: kapok.dev/v1alpha1\nkind: ServerConfiguration\ndataDir: d\ninMemory: true\n": {exitFailure, "", "exclude each other"},
	} {
		code, stdout, stderr := migrateText(t, text)
		if code != want.code || code == exitFailure && stdout != "" {
			t.Errorf("%q: exit code %d, want %d\n%s%s", text, code, want.code, stdout, stderr)
			continue
		}
		if strings.Contains(stdout, "featureGates: {}") {
			t.Errorf("%q: an empty field in\n%s", text, stdout)
		}
		for _, part := range strings.Split(want.out, "|") {
			if !strings.Contains(stdout, part) {
				t.Errorf("%q: no %q in\n%s", text, part, stdout)
			}
		}
		for _, part := range strings.Split(want.errs, "|") {
			if !strings.Contains(stderr, part) {
				t.Errorf("%q: no %q in\n%s", text, part, stderr)
			}
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"config", "migrate", filepath.Join(t.TempDir(), "absent")}, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "does not exist") {
		t.Errorf("a file that does not exist: exit code %d, %s", code, &stderr)
	}
}
