package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// convertText runs kapok convert on a text.
func convertText(t *testing.T, text string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(append([]string{"convert", "-f", file}, args...), &out, &errs)
	return out.String(), strings.ReplaceAll(errs.String(), file, "FILE"), code
}

// Row S14: the document's deployment, with the defaults of its version as O26 has it.
func TestConvertDocument(t *testing.T) {
	out, stderr, code := convertText(t, `apiVersion: apps/v1beta1
kind: Deployment
metadata:
  name: my-first-deploy
spec:
  replicas: 1
  selector:
    matchLabels:
      app: my-first-deploy
  template:
    metadata:
      labels:
        app: my-first-deploy
    spec:
      containers:
      - name: my-first-container
        image: nginx:latest
        imagePullPolicy: IfNotPresent
        ports:
        - containerPort: 80
`, "--output-version=apps/v1")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if want := `apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app: my-first-deploy
  name: my-first-deploy
spec:
  progressDeadlineSeconds: 600
  replicas: 1
  revisionHistoryLimit: 2
  selector:
    matchLabels:
      app: my-first-deploy
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
    type: RollingUpdate
  template:
    metadata:
      labels:
        app: my-first-deploy
    spec:
      containers:
      - image: nginx:latest
        imagePullPolicy: IfNotPresent
        name: my-first-container
        ports:
        - containerPort: 80
          protocol: TCP
        resources: {}
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
status: {}
`; out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

const (
	atDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ats.cnat.example.com}
spec:
  group: cnat.example.com
  names: {kind: At, plural: ats}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string}
              command: {type: string}
  - name: v1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string}
              retries: {type: integer, default: 3}
`
	at = "apiVersion: cnat.example.com/v1alpha1\nkind: At\nmetadata: {name: a}\nspec: {schedule: now, command: echo}\n"
)

func TestConvertCustom(t *testing.T) {
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(crd, []byte(atDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(t.TempDir(), "hook.yaml")
	if err := os.WriteFile(hook, []byte(atDefinition+"  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://x'}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, in   string
		args       []string
		want, fail string
	}{
		{"to the preferred version", at, []string{"--crd", crd},
			"apiVersion: cnat.example.com/v1\nkind: At\nmetadata:\n  name: a\nspec:\n  retries: 3\n  schedule: now\n", ""},
		{"to its own version", at, []string{"--crd", crd, "--output-version", "cnat.example.com/v1alpha1"},
			"apiVersion: cnat.example.com/v1alpha1\nkind: At\nmetadata:\n  name: a\nspec:\n  command: echo\n  schedule: now\n", ""},
		{"a list", "apiVersion: cnat.example.com/v1alpha1\nkind: AtList\nitems: [{metadata: {name: a}}]\n", []string{"--crd", crd},
			"apiVersion: cnat.example.com/v1\nkind: At\nmetadata:\n  name: a\n", ""},
		{"without the definition", at, nil,
			"", "kapok: FILE: document 1 (At a): no kind At is known in cnat.example.com/v1alpha1 (set --crd to its CustomResourceDefinition)\n"},
		{"to an unknown version", at, []string{"--crd", crd, "--output-version", "cnat.example.com/v2"},
			"", "kapok: FILE: document 1 (At a): cnat.example.com/v1alpha1, Kind=At cannot be converted to cnat.example.com/v2, only to cnat.example.com/v1, cnat.example.com/v1alpha1\n"},
		{"to another group", at, []string{"--crd", crd, "--output-version", "apps/v1"},
			"", "kapok: FILE: document 1 (At a): cnat.example.com/v1alpha1, Kind=At cannot be converted to apps/v1, only to cnat.example.com/v1, cnat.example.com/v1alpha1\n"},
		{"from an unknown version", strings.Replace(at, "v1alpha1", "v0", 1), []string{"--crd", crd},
			"", "kapok: FILE: document 1 (At a): At.cnat.example.com has no version cnat.example.com/v0, only cnat.example.com/v1, cnat.example.com/v1alpha1\n"},
		{"by a webhook", at, []string{"--crd", hook},
			"", "kapok: FILE: document 1 (At a): At.cnat.example.com is converted by a webhook, which kapok convert does not call\n"},
		{"by a webhook that has nothing to do", at, []string{"--crd", hook, "--output-version", "cnat.example.com/v1alpha1"},
			"apiVersion: cnat.example.com/v1alpha1\nkind: At\nmetadata:\n  name: a\nspec:\n  command: echo\n  schedule: now\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, stderr, code := convertText(t, test.in, test.args...)
			if out != test.want || stderr != test.fail || (code == exitFailure) != (test.fail != "") {
				t.Errorf("exit code %d\n%s%s\nwant\n%s%s", code, out, stderr, test.want, test.fail)
			}
		})
	}
}

// TestConvertRefusals checks that all errors are reported together, and that nothing is printed.
func TestConvertRefusals(t *testing.T) {
	const where = "kapok: FILE: document 1"
	for _, test := range []struct {
		name, in string
		args     []string
		want     string
	}{
		{"an unknown version", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}", []string{"--output-version=batch/v9"},
			where + " (Job j): batch/v1, Kind=Job cannot be converted to batch/v9, only to batch/v1\n"},
		{"no successor", "apiVersion: extensions/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: p}", nil,
			where + " (PodSecurityPolicy p): extensions/v1beta1, Kind=PodSecurityPolicy has no successor: Kubernetes 1.25 removed it in favour of Pod Security admission, which labels of namespaces enable\n"},
		{"several", "apiVersion: a/v1\nkind: B\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: c/v1\nkind: D\n", nil,
			where + ": no kind B is known in a/v1 (set --crd to its CustomResourceDefinition)\nFILE: document 3: no kind D is known in c/v1 (set --crd to its CustomResourceDefinition)\n"},
		{"in a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: a/v1, kind: B}]", nil,
			where + ", item 2: no kind B is known in a/v1 (set --crd to its CustomResourceDefinition)\n"},
		{"an unknown kind of Kubernetes", "apiVersion: apps/v1\nkind: B", nil, where + ": no kind B is known in apps/v1\n"},
		{"what is no object in a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]", nil,
			where + ": item 1: not a Kubernetes object: kind is missing\n"},
		{"no list", "apiVersion: v1\nkind: List\nitems: {}", nil,
			where + ": items of a List must be an array of objects\n"},
		{"a text", "hello", nil, where + ": not a Kubernetes object: want fields like apiVersion and kind\n"},
		{"a number for a kind", "apiVersion: v1\nkind: 7\n", nil,
			where + ": not a Kubernetes object: apiVersion, kind and metadata.name must be strings\n"},
		{"nothing", "", nil, "kapok: the input contains no object\n"},
		{"no definitions", "apiVersion: v1\nkind: ConfigMap", []string{"--crd", "testdata/none"}, "kapok: testdata does not exist\n"},
		{"an address", "apiVersion: v1\nkind: ConfigMap", []string{"-f", "https://example.com/x.yaml"},
			"kapok: https://example.com/x.yaml: URLs are not supported: save the manifest to a file first\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, stderr, code := convertText(t, test.in, test.args...)
			if out != "" || stderr != test.want || code != exitFailure {
				t.Errorf("exit code %d\n%s%s\nwant\n%s", code, out, stderr, test.want)
			}
		})
	}
	for _, args := range [][]string{
		{"--output-version", "a/b/c"}, {"-o", "xml"}, {"--local=false"}, {"--validate=maybe"}, {"too", "much"},
	} {
		if out, stderr, code := convertText(t, "apiVersion: v1\nkind: ConfigMap", args...); code != exitUsage || out != "" {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, stderr)
		}
	}
	if code := run([]string{"convert"}, &bytes.Buffer{}, &bytes.Buffer{}); code != exitUsage {
		t.Errorf("without a file: exit code %d", code)
	}
}

func FuzzReadDocuments(f *testing.F) {
	f.Add("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n---\n{}\n")
	f.Add(`{"apiVersion":"v1","kind":"PodList","items":[{},null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m := &manifests{}
		if err := m.read("x", strings.NewReader(text)); err != nil {
			return
		}
		for _, d := range m.documents {
			if d.gvk.Kind == "" || len(d.data) == 0 {
				t.Errorf("%s is empty", d)
			}
		}
	})
}
