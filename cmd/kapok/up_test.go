package main

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/node/stages"
	"github.com/kapok-dev/kapok/scheduler"

	"github.com/spf13/pflag"
)

// Flags write into options, and those that differ from them in meaning translate.
func TestFairnessFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want kapok.FairnessOptions
	}{
		{nil, kapok.FairnessOptions{MaxRequestsInFlight: 400, MaxMutatingRequestsInFlight: 200, MaxWatchesPerUser: 10_000}},
		{
			[]string{"--max-requests-inflight=0", "--max-mutating-requests-inflight=-5", "--max-watches-per-user=0x10", "--max-request-memory=512Mi", "--enable-priority-and-fairness=false"},
			kapok.FairnessOptions{MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1, MaxWatchesPerUser: 16, MaxRequestMemory: 512 << 20, Unfair: true},
		},
		{[]string{"--enable-priority-and-fairness", "--max-request-memory=1k"}, kapok.FairnessOptions{MaxRequestsInFlight: 400, MaxMutatingRequestsInFlight: 200, MaxWatchesPerUser: 10_000, MaxRequestMemory: 1000}},
	} {
		var got kapok.FairnessOptions
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		fairnessFlags(f, &got)
		if err := f.Parse(tc.args); err != nil || got != tc.want {
			t.Errorf("%q: %+v, %v; want %+v", tc.args, got, err, tc.want)
		}
	}
	var shown []string
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	fairnessFlags(f, &kapok.FairnessOptions{})
	f.VisitAll(func(flag *pflag.Flag) { shown = append(shown, flag.Name+"="+flag.DefValue) })
	want := []string{"enable-priority-and-fairness=true", "max-mutating-requests-inflight=200", "max-request-memory=0", "max-requests-inflight=400", "max-watches-per-user=10000"}
	if !slices.Equal(shown, want) {
		t.Errorf("defaults %q, want %q", shown, want)
	}
	for _, bad := range []string{"--max-requests-inflight=many", "--max-request-memory=1Q", "--enable-priority-and-fairness=perhaps"} {
		if f.Parse([]string{bad}) == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:6443": "https://127.0.0.1:6443",
		"[::1]:6443":     "https://[::1]:6443",
		"[::]:6443":      "https://127.0.0.1:6443, and all other addresses of this machine",
		"0.0.0.0:1":      "https://127.0.0.1:1, and all other addresses of this machine",
	} {
		if got := reachable(address); got != want {
			t.Errorf("%s is reached at %q", address, got)
		}
	}
}

// TestServiceRange checks that no node gets addresses of services from the ranges of the cluster.
func TestServiceRange(t *testing.T) {
	u := up{inMemory: true, options: kapok.Options{Listen: "127.0.0.1:0", ServiceAddresses: netip.MustParsePrefix("10.0.0.0/24")}}
	u.controllers.Names = []string{"*"}
	opts, err := u.complete(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := opts.Controllers.(kapok.Together)[0].(controllers.Options).NodeIPAM.ServiceCIDRs; !slices.Equal(got, []netip.Prefix{u.options.ServiceAddresses}) {
		t.Errorf("ranges of services %v", got)
	}
}

// TestProcessServices checks that services of a process node have loopback addresses, unless a flag
// says otherwise.
func TestProcessServices(t *testing.T) {
	standard := netip.MustParsePrefix("10.96.0.0/12")
	for _, tc := range []struct {
		u    up
		want netip.Prefix
	}{
		{up{process: processNode{kind: "process"}}, processServices},
		{up{process: processNode{kind: "process"}, addresses: true}, standard},
		{up{}, standard},
	} {
		tc.u.inMemory, tc.u.options.Listen, tc.u.options.ServiceAddresses = true, "127.0.0.1:0", standard
		tc.u.controllers.Names = []string{"*"}
		opts, err := tc.u.complete(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if opts.ServiceAddresses != tc.want || opts.Nodes.LoopbackEndpoints != (tc.u.process.kind != "") {
			t.Errorf("--node %q: services have %s, loopback endpoints: %t, want %s", tc.u.process.kind, opts.ServiceAddresses, opts.Nodes.LoopbackEndpoints, tc.want)
		}
		if got := opts.Controllers.(kapok.Together)[0].(controllers.Options).NodeIPAM.ServiceCIDRs; !slices.Equal(got, []netip.Prefix{tc.want}) {
			t.Errorf("--node %q: nodes leave out %v, want %s", tc.u.process.kind, got, tc.want)
		}
	}
}

// TestScheduler checks when the scheduler runs: if --scheduler is set, and by default with
// simulated nodes.
func TestScheduler(t *testing.T) {
	for _, tc := range []struct {
		u    up
		runs bool
	}{
		{up{}, false},
		{up{scheduler: schedule{on: true}}, true},
		{up{nodes: simulated.Options{Nodes: 3}}, true},
		{up{nodes: simulated.Options{Nodes: 3}, scheduler: schedule{off: true}}, false},
	} {
		tc.u.inMemory, tc.u.options.Listen = true, "127.0.0.1:0"
		opts, err := tc.u.complete(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := opts.Controllers.(kapok.Together)
		runs := slices.ContainsFunc(all, func(c kapok.Controllers) bool { _, ok := c.(scheduler.Options); return ok })
		if runs != tc.runs {
			t.Errorf("scheduler %v, not %v, nodes %d: it runs: %v", tc.u.scheduler.on, tc.u.scheduler.off, tc.u.nodes.Nodes, runs)
		}
	}
}

// TestStages checks --stages, with and without nodes.
func TestStages(t *testing.T) {
	good, bad := filepath.Join(t.TempDir(), "good.yaml"), filepath.Join(t.TempDir(), "bad.yaml")
	stage := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: {resourceRef: {kind: Pod}, selector: {matchExpressions: [{key: %s, operator: Exists}]}}\n"
	for path, key := range map[string]string{good: ".a", bad: "']['"} {
		if err := os.WriteFile(path, fmt.Appendf(nil, stage, key), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		u     up
		count int
		err   string
	}{
		{up{stages: []string{good}}, 1, ""},
		{up{nodes: simulated.Options{Nodes: 3}}, 0, ""},
		{up{stages: []string{bad}}, 0, "--stages: read stages: " + bad + ": stage a: "},
		{up{stages: []string{"none"}}, 0, "--stages: read stages: "},
		{up{answerObjects: true}, 0, ""},
	} {
		tc.u.inMemory, tc.u.options.Listen = true, "127.0.0.1:0"
		opts, err := tc.u.complete(io.Discard)
		if err != nil || tc.err != "" {
			if tc.err == "" || err == nil || !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("the error is %v, want %q", err, tc.err)
			}
			continue
		}
		o, ok := opts.Controllers.(kapok.Together)[0].(stages.Options)
		if !ok || len(o.Stages) != tc.count || o.Nodes.Nodes != tc.u.nodes.Nodes {
			t.Errorf("stages %v and nodes %d run as %+v", tc.u.stages, tc.u.nodes.Nodes, o)
		}
	}
}

// TestAnswerObjects rejects objects that run programs if clients on other machines can create them.
func TestAnswerObjects(t *testing.T) {
	u := up{answerObjects: true, inMemory: true}
	u.options.Listen = "0.0.0.0:0"
	if _, err := u.complete(io.Discard); err == nil || !strings.Contains(err.Error(), "--answer-objects with --listen 0.0.0.0:0") {
		t.Errorf("the error is %v", err)
	}
}
