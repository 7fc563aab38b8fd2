package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// TestCronJob types the tutorial of kubebuilder from the first command to the running operator:
// with the code of the tutorial, and kapok dev until the operator has started a Job and its
// webhooks have refused a schedule and a name.
func TestCronJob(t *testing.T) {
	kapok := program(t)
	t.Setenv(front.Self, kapok)
	p := newProject(t)
	p.must("init --domain tutorial.kubebuilder.io --repo tutorial.kubebuilder.io/project")
	p.must("create api --group batch --version v1 --kind CronJob")
	p.must("create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation")

	const types = "api/v1/cronjob_types.go"
	scaffolded := p.read(types)
	registration := scaffolded[strings.Index(scaffolded, "func init() {"):]
	for _, name := range []string{types, "internal/controller/cronjob_controller.go", "internal/webhook/v1/cronjob_webhook.go", "config/samples/batch_v1_cronjob.yaml"} {
		data, err := os.ReadFile("../../../test/kubebuilder/testdata/cronjob/" + name)
		if err != nil {
			t.Fatal(err)
		}
		p.write(name, string(data))
	}
	// The tutorial's types keep the scaffolded registration.
	p.write(types, strings.Replace(p.read(types), "import (\n", "import (\n\t\"k8s.io/apimachinery/pkg/runtime\"\n", 1)+"\n"+registration)
	p.tool("mod", "tidy")
	p.must("generate")
	p.must("vet")
	p.tool("vet", "./...")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dev := exec.CommandContext(ctx, kapok, "dev", "--plain")
	dev.Dir = p.dir
	dev.Env = append(os.Environ(), "KAPOK_TOOLKIT="+self, asCommand+"=1", "XDG_CACHE_HOME="+p.temp, "GOCACHE="+cacheOfGo(t))
	dev.Cancel = func() error { return dev.Process.Signal(os.Interrupt) }
	dev.WaitDelay = time.Minute
	dev.Stderr = t.Output()
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	kubeconfig, started := "", false
	exported := regexp.MustCompile(`export KUBECONFIG=(\S+)`)
	completed := regexp.MustCompile(`Job default/cronjob-sample-[0-9]+: Completed`)
	var last []string
	for lines := bufio.NewScanner(out); !started && lines.Scan(); {
		last = append(last, lines.Text())
		if match := exported.FindStringSubmatch(lines.Text()); match != nil {
			kubeconfig = match[1]
		}
		started = completed.MatchString(lines.Text())
	}
	if !started || kubeconfig == "" {
		t.Errorf("the operator has not run a Job:\n%s", strings.Join(last[max(0, len(last)-40):], "\n"))
	} else {
		for manifest, want := range map[string]string{
			"{name: wrong}\nspec:\n  schedule: nonsense\n":                                                            "spec.schedule: Invalid value",
			"{name: a-name-that-is-longer-than-the-fifty-two-characters-permitted}\nspec:\n  schedule: '* * * * *'\n": "must be no more than 52 characters",
		} {
			p.write("wrong.yaml", "apiVersion: batch.tutorial.kubebuilder.io/v1\nkind: CronJob\nmetadata: "+manifest+
				"  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}\n")
			if code, out := p.command(append(os.Environ(), "KUBECONFIG="+kubeconfig), kapok, "kubectl", "create", "-f", "wrong.yaml"); code == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d\n%s", manifest, code, out)
			}
		}
	}
	cancel()
	_ = out.Close()
	_ = dev.Wait() // it is interrupted
}

// cacheOfGo returns the directory of Go's build cache.
func cacheOfGo(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
