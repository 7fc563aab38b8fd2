package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
)

func TestControllersFlags(t *testing.T) {
	kubeconfig := kubeconfigOf(t, "http://127.0.0.1:1")
	t.Setenv("KUBECONFIG", "")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"more", 2, `unexpected argument "more"`},
		{"--controllers=", 2, "--controllers selects no controller"},
		{"--controllers=*,nothing", 2, `--controllers: "nothing" is not in the list of known controllers: `},
		{"--load-balancer-pool=10.0.0.0", 2, `--load-balancer-pool: "10.0.0.0" is invalid: want ranges of addresses, like 192.0.2.0/24`},
		{"--horizontal-pod-autoscaler-sync-period=-1s", 2, "--horizontal-pod-autoscaler-...: podautoscaler.Options.SyncPeriod -1s is negative"},
		{"--kubeconfig=", 2, "--kubeconfig must not be empty"},
		{"--leader-elect-resource-name=", 2, "--leader-elect-resource-name must not be empty"},
		{"--leader-elect-lease-duration=5s", 2, "want --leader-elect-lease-duration > --leader-elect-renew-deadline"},
		{"--leader-elect-retry-period=0s", 2, "want --leader-elect-lease-duration > "},
		{"--shard-controllers --leader-elect=false", 2, "--shard-controllers has no effect without --leader-elect"},
		{"--shard-controllers --leader-elect-retry-period=6s", 2, "want --leader-elect-renew-deadline > 2 * --leader-elect-retry-period"},
		{"", 1, "no server given: set --kubeconfig FILE or $KUBECONFIG"},
		{"--metrics-bind-address=nowhere --leader-elect=false --kubeconfig=" + kubeconfig, 1, "nowhere"},
	} {
		code, _, stderr := kapokRun(append([]string{"controllers"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d: %s", tc.args, code, stderr)
		}
	}
}

func TestChores(t *testing.T) {
	for _, tc := range []struct {
		value    string
		garbage  bool // is kept
		selected string
		err      string
	}{
		{"true", false, "", ""},
		{"false", true, "", ""},
		{"*", false, "[*]", ""},
		{"*,-replicaset", false, "[* -replicaset]", ""},
		{"maybe", true, "", `want true, false or a list: "maybe" is not in the list of known controllers`},
		{"", true, "", "want true, false or a list"},
	} {
		o := kapok.Options{KeepGarbage: true}
		err := (*chores)(&o).Set(tc.value)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: error %v, want %q", tc.value, err, tc.err)
		}
		selected := ""
		if c, ok := o.Controllers.(controllers.Options); ok {
			selected = fmt.Sprint(c.Names)
		}
		if selected != tc.selected || o.KeepGarbage != tc.garbage {
			t.Errorf("%q: controllers %s, garbage is kept: %t", tc.value, selected, o.KeepGarbage)
		}
	}
}
