package stages_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/node/stages"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const answerFile = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: web, namespace: shop}
spec: {logs: [{containers: [a], logsFile: /log/a, previousLogsFile: /log/b}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec:
  selector: {matchNamespaces: [default]}
  logs: [{logsFile: /log/other}, {containers: [a], logsFile: /log/own}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: web}
spec: {execs: [{local: {workDir: /tmp, envs: [{name: A, value: "1"}]}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterAttach
metadata: {name: all}
spec: {attaches: [{logsFile: /log/attach}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {name: web}
spec: {forwards: [{ports: [80], target: {address: 127.0.0.1, port: 8080}}, {ports: [81], command: [cat]}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec: {forwards: [{target: {address: "::1", port: 1}}]}
`

func readAnswers(t *testing.T, text string) (*stages.Answers, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "answers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return stages.ReadAnswers(path)
}

// TestAnswers finds the entries of containers and ports.
func TestAnswers(t *testing.T) {
	a, err := readAnswers(t, answerFile)
	if err != nil {
		t.Fatal(err)
	}
	podOf := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	own, other, far := podOf("shop", "web"), podOf("default", "web"), podOf("far", "web")
	log := func(p *corev1.Pod, container string) string {
		l, err := a.Log(p, container)
		if l == nil {
			return fmt.Sprint(err)
		}
		return l.Path + " " + l.Previous
	}
	forward := func(p *corev1.Pod, port int32) string {
		f, err := a.Forward(p, port)
		if f == nil {
			return fmt.Sprint(err)
		}
		return f.Address + fmt.Sprint(f.Command)
	}
	attach, err := a.Attach(far, "c")
	if err != nil || attach == nil || attach.Path != "/log/attach" {
		t.Errorf("attach: got %+v, %v", attach, err)
	}
	exec, err := a.Exec(other, "c")
	if err != nil || exec == nil || exec.Dir != "/tmp" || fmt.Sprint(exec.Env) != "[A=1]" {
		t.Errorf("exec: got %+v, %v", exec, err)
	}
	if exec, err := a.Exec(own, "c"); exec != nil || err != nil {
		t.Errorf("exec without an object: got %+v, %v", exec, err)
	}
	for _, test := range []struct{ got, want string }{
		{log(own, "a"), "/log/a /log/b"},
		{log(own, "b"), `the Logs of pod "web" has no entry for container "b"`},
		{log(other, "a"), "/log/own "},
		{log(other, "b"), "/log/other "},
		{log(far, "a"), "<nil>"},
		{forward(other, 80), "127.0.0.1:8080[]"},
		{forward(other, 81), "[cat]"},
		{forward(other, 82), `the PortForward of pod "web" has no entry for port 82`},
		{forward(far, 82), "[::1]:1[]"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestInvalidAnswers(t *testing.T) {
	for _, test := range []struct{ kind, spec, want string }{
		{"Exec", "{execs: [{}]}", "spec.execs[0].local must be set"},
		{"ClusterExec", "{execs: [{remote: {}}]}", `unknown field "remote"`},
		{"Attach", "{attaches: [{}]}", "spec.attaches[0]: logsFile must be set"},
		{"PortForward", "{forwards: [{ports: [80]}]}", "spec.forwards[0]: command, or target with address and port, must be set"},
		{"PortForward", "{forwards: [{target: {address: a, port: 70000}}]}", "spec.forwards[0]: command, or target"},
	} {
		_, err := readAnswers(t, fmt.Sprintf("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: %s\nmetadata: {name: a}\nspec: %s\n", test.kind, test.spec))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: the error is %v, want %q", test.kind, test.spec, err, test.want)
		}
	}
	one := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: a}\nspec: {logs: []}\n"
	if _, err := readAnswers(t, one+"---\n"+one); err == nil || !strings.Contains(err.Error(), "two objects of the kind Logs have the name a") {
		t.Errorf("two objects: %v", err)
	}
	stage := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: {resourceRef: {kind: Pod}}\n"
	if a, err := readAnswers(t, stage); a != nil || err != nil {
		t.Errorf("a file without answers: got %v, %v", a, err)
	}
}
