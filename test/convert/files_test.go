package convert

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	kubectl "k8s.io/kubernetes/pkg/kubectl/cmd/convert"
)

// kubectlConvert runs kubectl-convert.
func kubectlConvert(t *testing.T, stdin string, args ...string) (out string, err error) {
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}
	// It always reads the standard input of the process.
	file := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(file, []byte(stdin), 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stdin = was; input.Close() }(os.Stdin)
	os.Stdin = input
	cmdutil.BehaviorOnFatal(func(text string, code int) { panic(fatal{text}) })
	defer func() {
		if f, ok := recover().(fatal); ok {
			err = f
		}
		if err == nil && stderr.Len() > 0 { // it only reports objects that it skips
			err = errors.New(stderr.String())
		}
	}()
	c := kubectl.NewCmdConvert(cmdutil.NewFactory(genericclioptions.NewConfigFlags(false)), streams)
	c.SetArgs(args)
	c.SetErr(&stderr)
	err = c.Execute()
	return stdout.String(), err
}

type fatal struct{ text string }

func (f fatal) Error() string { return f.text }

// kapokConvert runs kapok convert.
func kapokConvert(kapok, stdin string, args ...string) (string, error) {
	c := exec.Command(kapok, append([]string{"convert"}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return string(out), err
}

func buildKapok(t *testing.T) string {
	t.Helper()
	kapok := filepath.Join(t.TempDir(), "kapok")
	if runtime.GOOS == "windows" {
		kapok += ".exe"
	}
	build := exec.Command("go", "build", "-o", kapok, "./cmd/kapok")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return kapok
}

// TestFiles checks that both give the same output for the same files.
func TestFiles(t *testing.T) {
	kapok := buildKapok(t)
	apps := []string{"", "apps/v1", "apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"}
	daemons := []string{"", "apps/v1", "apps/v1beta2", "extensions/v1beta1"}
	autoscaling := []string{"", "autoscaling/v1", "autoscaling/v2"}
	ingress := []string{"", "networking.k8s.io/v1", "networking.k8s.io/v1beta1", "extensions/v1beta1"}
	policies := []string{"", "networking.k8s.io/v1", "extensions/v1beta1"}
	budgets := []string{"", "policy/v1", "policy/v1beta1"}
	roles := []string{"", "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1"}
	slices := []string{"", "discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"}
	hooks := []string{"", "admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"}
	levels := []string{
		"", "flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1beta3", "flowcontrol.apiserver.k8s.io/v1beta2",
		"flowcontrol.apiserver.k8s.io/v1beta1",
	}
	compared := 0
	for _, test := range []struct {
		file    string
		targets []string
	}{
		{"deployment-apps-v1beta1.yaml", apps},
		{"deployment-extensions.yaml", apps},
		{"deployment-annotated.yaml", apps},
		{"deployment-bad-annotation.yaml", apps},
		{"daemonset-annotated.yaml", daemons},
		{"daemonset-extensions.yaml", daemons},
		{"daemonset-bad-annotation.yaml", daemons},
		{"statefulset.yaml", []string{"", "apps/v1", "apps/v1beta2", "apps/v1beta1"}},
		{"replicaset.yaml", daemons},
		{"hpa-v1.yaml", autoscaling},
		{"hpa-v1-minimal.yaml", autoscaling},
		{"hpa-v2.yaml", autoscaling},
		{"cronjob.yaml", []string{"", "batch/v1", "batch/v1beta1"}},
		{"job.yaml", []string{"", "batch/v1"}},
		{"ingress-extensions.yaml", ingress},
		{"ingress-v1beta1.yaml", ingress},
		{"ingress-v1.yaml", ingress},
		{"ingressclass.yaml", ingress[:3]},
		{"networkpolicy.yaml", policies},
		{"networkpolicy-v1.yaml", policies},
		{"pdb-none.yaml", budgets}, {"pdb-all.yaml", budgets}, {"pdb-some.yaml", budgets}, {"pdb-nil.yaml", budgets},
		{"pdb-v1-none.yaml", budgets}, {"pdb-v1-all.yaml", budgets}, {"pdb-v1-some.yaml", budgets}, {"pdb-v1-nil.yaml", budgets},
		{"rbac-v1alpha1.yaml", roles},
		{"rbac-v1.yaml", roles},
		{"endpointslice.yaml", slices},
		{"endpointslice-v1.yaml", slices},
		{"event.yaml", []string{"v1", "events.k8s.io/v1", "events.k8s.io/v1beta1"}},
		{"webhook.yaml", hooks},
		{"webhook-v1.yaml", hooks},
		{"prioritylevel.yaml", levels},
		{"prioritylevel-v1beta2.yaml", levels},
		{"storage.yaml", []string{"", "storage.k8s.io/v1", "storage.k8s.io/v1beta1"}},
		{"runtimeclass.yaml", []string{"", "node.k8s.io/v1", "node.k8s.io/v1beta1", "node.k8s.io/v1alpha1"}},
		{"resourceclaim.yaml", []string{"", "resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"}},
		{"service.yaml", []string{"", "v1"}},
		{"list.yaml", []string{""}},
		{"deploymentlist.json", []string{""}},
		{"tree", []string{""}},
	} {
		for _, target := range test.targets {
			for _, format := range []string{"yaml", "json"} {
				args := []string{"-f", filepath.Join("testdata", test.file), "-o", format}
				if target != "" {
					args = append(args, "--output-version="+target)
				}
				t.Run(strings.Join([]string{test.file, target, format}, " "), func(t *testing.T) { sameOutput(t, kapok, "", args) })
				compared++
			}
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	single, err := os.ReadFile(filepath.Join("testdata", "cronjob.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		stdin string
		args  []string
	}{
		"stdin":            {string(text), []string{"-f", "-"}},
		"one from stdin":   {string(single), []string{"-f", "-"}},
		"recursive":        {"", []string{"-R", "-f", "testdata/tree"}},
		"several files":    {"", []string{"-f", "testdata/cronjob.yaml", "-f", "testdata/job.yaml"}},
		"local":            {"", []string{"-f", "testdata/cronjob.yaml", "--local"}},
		"a list alone":     {"", []string{"-f", "testdata/list.yaml", "-o", "json"}},
		"comma":            {"", []string{"-f", "testdata/cronjob.yaml,testdata/job.yaml"}},
		"several versions": {"", []string{"-f", "testdata/deploymentlist.json", "-o", "json"}},
	} {
		t.Run(name, func(t *testing.T) { sameOutput(t, kapok, test.stdin, test.args) })
		compared++
	}
	t.Logf("%d runs compared", compared)
}

func sameOutput(t *testing.T, kapok, stdin string, args []string) {
	t.Helper()
	want, wantErr := kubectlConvert(t, stdin, args...)
	got, err := kapokConvert(kapok, stdin, append([]string{"--validate=ignore"}, args...)...) // kubectl drops unknown fields
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("error is %v, kubectl says %v", err, wantErr)
	}
	if err != nil {
		if got != "" {
			t.Errorf("printed in spite of an error: %s", got)
		}
		return
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-kubectl +kapok)\n%s", diff)
	}
}

// TestRefusals checks that both return an error for objects that cannot be converted; kubectl often
// reports them and prints the rest.
func TestRefusals(t *testing.T) {
	kapok := buildKapok(t)
	for _, test := range []struct{ name, stdin, target string }{
		{"unknown version", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "apps/v7"},
		{"unknown group", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "example.com/v1"},
		{"another group", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "apps/v1"},
		{"unknown kind", "apiVersion: apps/v1\nkind: Foo\nmetadata: {name: a}\n", ""},
		{"unknown source version", "apiVersion: apps/v0\nkind: Deployment\n", ""},
		{"no kind", "apiVersion: apps/v1\nmetadata: {name: a}\n", ""},
		{"no apiVersion", "kind: Deployment\n", ""},
		{"garbage", "{[", ""},
		{"a text", "hello", ""},
		{"a list of YAML", "- a\n- b\n", ""},
		{"wrong type", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: many}\n", ""},
		{"nothing", "", ""},
		{"one of two", "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: apps/v1\nkind: Foo\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"-f", "-"}
			if test.target != "" {
				args = append(args, "--output-version="+test.target)
			}
			if out, err := kubectlConvert(t, test.stdin, args...); err == nil {
				t.Errorf("kubectl says %s", out)
			}
			out, err := kapokConvert(kapok, test.stdin, args...)
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("error is %v, want exit code 1", err)
			}
			if out != "" {
				t.Errorf("printed in spite of an error: %s", out)
			}
			t.Log(err)
		})
	}
}
