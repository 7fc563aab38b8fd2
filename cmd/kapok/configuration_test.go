package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// upFlags returns the flags of kapok up that a command line has set.
func upFlags(t *testing.T, args ...string) (*up, *pflag.FlagSet) {
	t.Helper()
	u := newUpState()
	f := u.command().Flags()
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return u, f
}

func configurationFile(t *testing.T, fields string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.yaml")
	write(t, file, "apiVersion: kapok.dev/v1alpha1\nkind: ServerConfiguration\n"+fields)
	return file
}

// A flag comes before its variable, and that before the file.
func TestOrderOfConfiguration(t *testing.T) {
	file := configurationFile(t, "listen: 127.0.0.1:1\nlogLevel: error\nnamespaceGrace: 1s\n")
	t.Setenv("KAPOK_LISTEN", "127.0.0.1:2")
	t.Setenv("KAPOK_LOG_LEVEL", "info")
	t.Setenv("KAPOK_HISTORY_AGE", "")
	u, f := upFlags(t, "--listen=127.0.0.1:3", "--config", file)
	if err := u.configure(f, nil); err != nil {
		t.Fatal(err)
	}
	if o := u.options; o.Listen != "127.0.0.1:3" || u.logLevel.String() != "info" || o.NamespaceGrace.String() != "1s" || o.HistoryAge.String() != "5m0s" {
		t.Errorf("listen %s, log level %s, namespace grace %v, history age %v", o.Listen, &u.logLevel, o.NamespaceGrace, o.HistoryAge)
	}
	u, f = upFlags(t)
	t.Setenv("KAPOK_CONFIG", file)
	if err := u.configure(f, nil); err != nil || u.options.NamespaceGrace.String() != "1s" {
		t.Errorf("with KAPOK_CONFIG, namespace grace %v, %v", u.options.NamespaceGrace, err)
	}
}

// Values of all shapes have the meaning that they have as flags.
func TestConfigurationFields(t *testing.T) {
	u, f := upFlags(t, "--config", configurationFile(t, `
authorizationMode: [Node, "RBAC"]
serviceAccountIssuer: ["https://a,b", "https://c"]
tlsSan: [a.example.com]
maxRequestsInflight: 7
anonymousAuth: false
serviceAccounts: false
oidcRequiredClaim: {b: "2", a: 1}
clusterCidr: [10.1.0.0/16, "fd00::/48"]
serviceClusterIpRange: 10.0.0.0/24
maxRequestMemory: 1Gi
horizontalPodAutoscalerTolerance: 0.25
defaultNotReadyTolerationSeconds: 10
controllers: []
runtimeConfig: {batch/v1/cronjobs: false, api/beta: true}
`))
	if err := u.configure(f, nil); err != nil {
		t.Fatal(err)
	}
	o := u.options
	for name, tc := range map[string]struct{ got, want any }{
		"modes":       {o.Access.Modes, []string{"Node", "RBAC"}},
		"issuers":     {o.Accounts.Issuers, []string{"https://a,b", "https://c"}},
		"names":       {o.Serving.Names, []string{"a.example.com"}},
		"requests":    {o.Fairness.MaxRequestsInFlight, 7},
		"memory":      {o.Fairness.MaxRequestMemory, int64(1 << 30)},
		"anonymous":   {o.Authentication.RefuseAnonymous, true},
		"accounts":    {o.Accounts.None, true},
		"claims":      {o.Authentication.OIDC.RequiredClaims, map[string]string{"a": "1", "b": "2"}},
		"ranges":      {len(u.controllers.NodeIPAM.ClusterCIDRs), 2},
		"services":    {o.ServiceAddresses.String(), "10.0.0.0/24"},
		"tolerance":   {u.controllers.PodAutoscaler.Tolerance, 0.25},
		"seconds":     {*o.Admission.NotReadySeconds, int64(10)},
		"controllers": {len(u.controllers.Names), 0},
		"versions":    {o.RuntimeConfig, map[string]bool{"batch/v1/cronjobs": false, "api/beta": true}},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
	// What is printed configures the same.
	var printed bytes.Buffer
	if err := writeConfiguration(&printed, f, true); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "printed.yaml")
	write(t, file, printed.String())
	again, g := upFlags(t, "--config", file)
	if err := again.configure(g, nil); err != nil {
		t.Fatalf("%v in\n%s", err, &printed)
	}
	var second bytes.Buffer
	if err := writeConfiguration(&second, g, true); err != nil || second.String() != printed.String() {
		t.Errorf("the printed configuration means\n%s\nwant\n%s", &second, &printed)
	}
}

// Fields with defaults exclude nothing, but false turns the scheduler off.
func TestConfigurationOfDefaults(t *testing.T) {
	u, f := upFlags(t, "--config", configurationFile(t, "dataDir: ''\ninMemory: true\nnodes: 1\nscheduler: false\n"))
	if err := u.configure(f, nil); err != nil {
		t.Fatal(err)
	}
	if f.Changed("data-dir") || !f.Changed("in-memory") || !u.scheduler.off {
		t.Errorf("data-dir is set: %v, in-memory: %v, scheduler off: %v", f.Changed("data-dir"), f.Changed("in-memory"), u.scheduler.off)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for fields, want := range map[string]string{
		"loglevel: info\n":              `unknown field "loglevel": did you mean logLevel?`,
		"log-level: info\n":             `unknown field "log-level": did you mean logLevel?`,
		"detach: true\n":                `unknown field "detach"`,
		"logLevel: loud\n":              `field logLevel: "loud" is invalid: want debug, info, warn or error`,
		"namespaceGrace: 5\n":           `field namespaceGrace: "5" is not a duration`,
		"inMemory: maybe\n":             `field inMemory: "maybe" is invalid: want true or false`,
		"listen: [a, b]\n":              "field listen: want one value, not a list",
		"listen: {a: b}\n":              "field listen: want a value, not a mapping",
		"listen:\n":                     "field listen: it has no value",
		"tlsSan: [[a]]\n":               "field tlsSan: want a string, a number or a boolean",
		"listen: a\nlisten: b\n":        "listen",
		"a: b\n---\na: b\n":             "several documents",
		"dataDir: d\ninMemory: true\n":  "--data-dir and --in-memory exclude each other",
		"nodes: -1\n":                   "--nodes is -1: must not be negative",
		"node: process\nlisten: ':1'\n": "--node process with --listen :1",

		"emulatedVersion: 1.33\n":              `--emulated-version: "1.33" is not a release that can be emulated`,
		"featureGates: {PodsAPI: false}\n":     "--feature-gates: feature gate PodsAPI=false is not supported",
		"enableAdmissionPlugins: [Nonsense]\n": `enable-admission-plugins plugin "Nonsense" is unknown`,
		"serviceClusterIpRange: 10.0.0.0/31\n": "--service-cluster-ip-range is 10.0.0.0/31: want a range",
	} {
		var stdout, stderr bytes.Buffer
		code := run([]string{"config", "validate", configurationFile(t, fields)}, &stdout, &stderr)
		if code != exitFailure || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d\n%s%swant %s", fields, code, &stdout, &stderr, want)
		}
	}
	for text, want := range map[string]string{
		"": "want apiVersion: kapok.dev/v1alpha1 and kind: ServerConfiguration", "- a": "want a mapping", "a: [": "yaml",
		"apiVersion: kapok.dev/v1\nkind: ServerConfiguration\n": "got kapok.dev/v1 and ServerConfiguration",
	} {
		file := filepath.Join(t.TempDir(), "server.yaml")
		write(t, file, text)
		for _, args := range [][]string{{"config", "validate", file}, {"config", "view", "--config", file}, {"up", "--config", file}} {
			var stdout, stderr bytes.Buffer
			if code := run(args, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), file) {
				t.Errorf("%q of %q: exit code %d\n%s%swant %s", args, text, code, &stdout, &stderr, want)
			}
		}
	}
	t.Setenv("KAPOK_NODES", "many")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"config", "view"}, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), `$KAPOK_NODES: "many" is not an integer`) {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}

// The kapok.yaml of a project configures its instance.
func TestConfigurationOfProject(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "kapok.yaml")
	write(t, file, "apiVersion: kapok.dev/v1alpha1\nkind: ServerConfiguration\nnodes: 3\n")
	view := func(args ...string) (string, string) {
		var stdout, stderr bytes.Buffer
		run(append([]string{"config", "view"}, args...), &stdout, &stderr)
		return stdout.String(), stderr.String()
	}
	const head = "apiVersion: kapok.dev/v1alpha1\nkind: ServerConfiguration\n"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, head + "nodes: 3\n"},
		{[]string{"--nodes=4", "--in-memory"}, "apiVersion: kapok.dev/v1alpha1\ninMemory: true\nkind: ServerConfiguration\nnodes: 4\n"},
		{[]string{"demo"}, head}, // another instance
		{[]string{"--data-dir=d"}, "apiVersion: kapok.dev/v1alpha1\ndataDir: d\nkind: ServerConfiguration\n"}, // no instance
		{[]string{"--config", configurationFile(t, "nodes: 5\n")}, head + "nodes: 5\n"},
	} {
		if got, stderr := view(tc.args...); got != tc.want {
			t.Errorf("config view %q:\n%s%swant\n%s", tc.args, got, stderr, tc.want)
		}
	}
	write(t, file, head+"dataDir: d\n")
	if _, stderr := view(); !strings.Contains(stderr, "field dataDir: the instance of a project has its own directory") {
		t.Errorf("dataDir in kapok.yaml: %s", stderr)
	}
	write(t, file, "\n")
	if got, stderr := view(); got != head {
		t.Errorf("an empty kapok.yaml: %s%s", got, stderr)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, stderr := view("--all"); !strings.Contains(got, "\nlogLevel: warn\n") || !strings.Contains(got, "\nserviceAccounts: true\n") {
		t.Errorf("--all:\n%s%s", got, stderr)
	}
}
