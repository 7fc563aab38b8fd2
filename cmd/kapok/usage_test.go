package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Errors of a command line name the command or flag, the value and the rule.
func TestWrongCommandLines(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list := file + ".list"
	if err := os.WriteFile(list, []byte("[1]"), 0o600); err != nil {
		t.Fatal(err)
	}
	const usage, failure = exitUsage, exitFailure
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"ups", usage, `unknown command "ups" for "kapok": did you mean kapok up?`},
		{"snap", usage, `unknown command "snap" for "kapok": did you mean kapok snapshot?`},
		{"apply", usage, `unknown command "apply" for "kapok"`},
		{"help ups", usage, `unknown command "ups" for "kapok": did you mean kapok up?`},
		{"help snapshot sav", usage, `unknown command "sav" for "kapok snapshot": did you mean kapok snapshot save?`},
		{"user ad", usage, `unknown command "ad" for "kapok user": did you mean kapok user add?`},
		{"snapshot sve", usage, `unknown command "sve" for "kapok snapshot": did you mean kapok snapshot save?`},
		{"completion bsh", usage, `unknown command "bsh" for "kapok completion": did you mean kapok completion bash?`},
		{"--versio", usage, `unknown flag: --versio: did you mean --version?`},
		{"version -o yaml", usage, `-o, --output: "yaml" is invalid: want json or text`},
		{"up --data-di x", usage, `unknown flag: --data-di: did you mean --data-dir?`},
		{"up --whatever", usage, `unknown flag: --whatever`},
		{"up -x", usage, `unknown flag: -x`},
		{"up --=x", usage, `"--=x" is not a flag: want --NAME or --NAME=VALUE`},
		{"up a b", usage, `too many arguments: want one NAME, got ["a" "b"]`},
		{"up ../x", usage, `instance "../x": want a name of at most 63 lower-case letters, digits and dashes`},
		{"up Demo", usage, `instance "Demo": want a name of at most 63 lower-case letters, digits and dashes`},
		{"up demo --data-dir d", usage, `NAME and --data-dir exclude each other`},
		{"up --detach --in-memory", usage, `--detach requires an instance: set NAME`},
		{"up --detach --data-dir d", usage, `--detach requires an instance: set NAME`},
		{"delete", usage, `NAME is missing: run kapok delete NAME`},
		{"delete ../x", failure, `instance "../x": want a name`},
		{"delete demo", failure, `instance demo does not exist: kapok list prints those that do`},
		{"stop demo", failure, `instance demo does not exist`},
		{"stop", failure, `instance default does not exist`},
		{"status", failure, `instance default does not exist`},
		{"logs --tail -5", usage, `--tail is -5: must not be negative`},
		{"stop --timeout 0s", usage, `--timeout must be positive`},
		{"doctor --instance demo", failure, `instance demo does not exist`},
		{"doctor --instance=", usage, `--instance must not be empty`},
		{"doctor --instance a --data-dir d", usage, `--instance and --data-dir exclude each other`},
		{"bench --instance demo", failure, `instance demo does not exist`},
		{"why pod/a --instance demo", failure, `instance demo does not exist`},
		{"node token list --instance demo", failure, `instance demo does not exist`},
		{"user add alice --instance demo", failure, `instance demo does not exist`},
		{"version now", usage, `unexpected argument "now": kapok version takes only flags`},
		{"up --listen", usage, `--listen needs a value: address of the TLS socket`},
		{"convert -f", usage, `-f, --filename needs a value: file or directory to convert`},
		{"up --log-level loud", usage, `--log-level: "loud" is invalid: want debug, info, warn or error`},
		{"up --log-level", usage, `--log-level needs a value: lowest level that is logged: debug, info, warn, error`},
		{"up --namespace-grace abc", usage, `--namespace-grace: "abc" is not a duration: want a number with a unit, such as 90s, 5m or 720h`},
		{"user add alice --expires 30d", usage, `--expires: "30d" is not a duration`},
		{"up --in-memory=maybe", usage, `--in-memory: "maybe" is invalid: want true or false`},
		{"up --max-requests-inflight many", usage, `--max-requests-inflight: "many" is not an integer`},
		{"snapshot restore f --data-dir d --bump-revision x", usage, `--bump-revision: "x" is not an integer`},
		{"up --service-cluster-ip-range x", usage, `--service-cluster-ip-range: "x" is invalid: want a range of addresses, like 10.96.0.0/12`},
		{"doctor -o yaml", usage, `-o, --output: "yaml" is invalid: want json or text`},
		{"up --data-dir d --in-memory", usage, `--data-dir and --in-memory exclude each other: set only one of them`},
		{"up --store etcd://h:1 --in-memory", usage, `--store and --in-memory exclude each other`},
		{"up -v --log-level info", usage, `--log-level and --verbose exclude each other`},
		{"doctor --kubeconfig k --data-dir d", usage, `--kubeconfig and --data-dir exclude each other`},
		{"user add alice --kubeconfig k --data-dir d", usage, `--data-dir and --kubeconfig exclude each other`},
		{"user add", usage, `NAME is missing: run kapok user add NAME [flags]`},
		{"user add alice bob", usage, `too many arguments: want one NAME, got ["alice" "bob"]`},
		{"snapshot save", usage, `FILE is missing: run kapok snapshot save FILE [flags]`},
		{"up --etcd-servers http://h:1", usage, `unknown flag --etcd-servers: here its name is --store`},
		{"up --in-memory --authorization-mode X", usage, `--authorization-mode "X": want Node, RBAC, Webhook, AlwaysAllow`},
		{"up --in-memory --tls-cipher-suites x", usage, `--tls-cipher-suites "x": want names such as TLS_`},
		{"up --in-memory --audit-policy-file p", usage, `--audit-policy-file requires a destination of events: set --audit-log-path`},
		{"check x", usage, `unexpected argument "x": kapok check takes only flags`},
		{"snapshot inspect " + file + ".none", failure, "kapok: " + file + ".none does not exist"},
		{"check -f " + file + ".none", failure, file + ".none does not exist"},
		{"convert -f " + file + ".none", failure, file + ".none does not exist"},
		{"up --config " + file + ".none", failure, "configuration: " + file + ".none does not exist"},
		{"port a b", usage, `too many arguments: want one DIR, got ["a" "b"]`},
		{"envtest", usage, `DIR is missing: run kapok envtest DIR [flags]`},
		{"up --data-dir " + file, failure, `data directory ` + file + ` is a file: want a directory`},
		{"up --data-dir " + file + "/below/it", failure, file + ` is a file: want a directory`},
		{"doctor --data-dir " + file, failure, file + ` is a file: want a directory`},
		{"snapshot save f --data-dir " + file, failure, file + ` is a file: want a directory`},
		{"user add alice --data-dir " + file, failure, file + ` is a file: want a directory`},
		{"envtest " + file, failure, `directory ` + file + ` is a file: want a directory`},
		{"doctor --kubeconfig " + file, failure, `kubeconfig ` + file + ` names no server: want the file that kapok up wrote`},
		{"up --in-memory --audit-log-path " + file + ".log --audit-policy-file " + list, failure, `audit policy in ` + list + `: failed decoding: want fields such as apiVersion and kind, not an array`},
		{"up --data-dir " + file + ".data --encryption-provider-config " + list, failure, `encryption configuration in ` + list + `: want fields`},
		{"up --in-memory --scheduler-config " + list, usage, `--scheduler-config: ` + list + `: want fields`},
		{"up --in-memory --nodes 1 --stages " + list, usage, `--stages: read stages: ` + list + `: want fields`},
		{"bench --kubeconfig " + list, failure, `want fields such as apiVersion and kind, not an array`},
		{"up --in-memory --oidc-issuer-url https://h", usage, `--oidc-issuer-url and --oidc-client-id: set both`},
		{"up --in-memory --console-oidc-client-id c", usage, `--console-oidc-client-id requires --console-oidc-issuer-url or --oidc-issuer-url`},
		{"up --in-memory --console-oidc-issuer-url https://h", usage, `--console-oidc-issuer-url requires --console-oidc-client-id`},
		{"up --in-memory --console-oidc-client-id c --console-oidc-issuer-url http://h", usage, `--console-oidc-issuer-url: the issuer "http://h" is not a URL with https://`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Split(tc.args, " "), &stdout, &stderr)
		first, _, _ := strings.Cut(stderr.String(), "\n")
		if code != tc.code || !strings.HasPrefix(first, "kapok: ") || !strings.Contains(first, tc.want) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d\n%s%s\nwant %q", tc.args, code, &stdout, &stderr, tc.want)
		}
		for _, raw := range []string{"strconv", "slog:", "any flags in the group", "accepts 1 arg", "mkdir", "not a directory", "no such file", "flag needs an argument", "json:", "oidc-*"} {
			if strings.Contains(stderr.String(), raw) {
				t.Errorf("%s: the words of a library: %s", tc.args, &stderr)
			}
		}
	}
}

// The help of kapok has each command in a group, and that of kapok up each flag in a section.
func TestHelp(t *testing.T) {
	help := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, &stderr)
		}
		return stdout.String()
	}
	text := help("--help")
	if strings.Contains(text, "Additional Commands") || !strings.Contains(text, "\nServers:\n") {
		t.Errorf("kapok --help has commands without a group:\n%s", text)
	}
	text = help("up", "--help")
	_, rest, _ := strings.Cut(text, "\nOther flags:\n")
	if strings.TrimSpace(rest) != "-h, --help   help for up" {
		t.Errorf("kapok up --help has flags without a section:\n%s", rest)
	}
	for _, want := range []string{"Usage:\n  kapok up [NAME] [flags]\n", "\nWhere objects are stored:\n", "\nExamples:\n  kapok up\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("kapok up --help has no %q:\n%s", want, text)
		}
	}
	newUp().Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && strings.Count(text, "--"+f.Name+" ")+strings.Count(text, "--"+f.Name+"\n") == 0 {
			t.Errorf("kapok up --help has no --%s", f.Name)
		}
	})
	if got := help("--version"); got != help("version") || !strings.HasPrefix(got, "kapok ") {
		t.Errorf("kapok --version: %s", got)
	}
	var of struct{ Version, Kubernetes, Go, Platform string }
	if err := json.Unmarshal([]byte(help("version", "-o", "json")), &of); err != nil || of.Version != version() || of.Kubernetes == "" || of.Go == "" || of.Platform == "" {
		t.Errorf("kapok version -o json: %+v, %v", of, err)
	}
}

// Shells complete values of flags that are words.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"up --log-level d":            "debug\n",
		"up --authorization-mode A":   "AlwaysAllow\n",
		"up --housekeeping=-g":        "-gc\n",
		"up --controllers deployment": "deployment-controller\n",
		"list -o j":                   "json\n",
		"bench --connections o":       "own\n",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"__complete"}, strings.Split(args, " ")...), &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), want) {
			t.Errorf("%s: exit code %d\n%swant %s", args, code, &stdout, want)
		}
	}
}

// A command whose work its subcommands do prints its help.
func TestGroups(t *testing.T) {
	for _, args := range [][]string{{}, {"user"}, {"snapshot"}, {"completion"}, {"help"}, {"help", "snapshot"}, {"help", "user", "add"}} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "Usage:\n  kapok") || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d\n%s%s", args, code, &stdout, &stderr)
		}
	}
}
