package aggregate_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// locals starts Locals on the store.
func (w *world) locals() *aggregate.Locals {
	w.Helper()
	l, err := aggregate.StartLocals(w.Context(), w.store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return l
}

// local formats an APIService as a line.
func (w *world) local(name string) string {
	w.Helper()
	s := w.apiService(name)
	if s == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %d %d", s.Labels["kube-aggregator.kubernetes.io/automanaged"], s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority)
	for _, c := range s.Status.Conditions {
		text += fmt.Sprintf(" %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return text
}

func (w *world) names() string {
	var names []string
	for o := range w.store.State().Snapshot(aggregate.Resource).All("") {
		names = append(names, o.Key.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestLocals checks that every local group version has an APIService, and that surplus ones with
// the label are deleted.
func TestLocals(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		register := func(name, label string, priority int) {
			t.Helper()
			version, group, _ := strings.Cut(name, ".")
			w.put(fmt.Sprintf(`{kind: APIService, metadata: {name: %s, labels: {kube-aggregator.kubernetes.io/automanaged: %q}},
				spec: {group: %s, version: %s, groupPriorityMinimum: %d, versionPriority: 3}}`, name, label, group, version, priority))
		}
		want := func(when string, all map[string]string) {
			t.Helper()
			for name, want := range all {
				if got := w.local(name); got != want {
					t.Errorf("%s: %s is %q, want %q", when, name, got, want)
				}
			}
		}
		register("v1.batch", "", 7)          // without the label, made by a user
		register("v1.apps", "onstart", 7)    // made by an earlier version of the server
		register("v1.gone", "onstart", 7)    // the same, for a version that is no longer served
		register("v1.crd.gone", "true", 7)   // of a custom resource that has been deleted meanwhile
		register("v1.mine.example", "no", 7) // made by a user
		l := w.locals()
		const local = " Available=True Local"
		want("at the start", map[string]string{
			"v1.":                               "onstart 18000 1" + local,
			"v1.apps":                           "onstart 17800 15" + local,
			"v2.autoscaling":                    "onstart 17500 30" + local,
			"v1.batch":                          " 7 3" + local,
			"v1.gone":                           "none",
			"v1.crd.gone":                       "none",
			"v1.mine.example":                   "no 7 3" + local,
			"v1.custom.example.io":              "none",
			"v1." + apiregistrationv1.GroupName: "none",
		})

		d := &resource.Definition{
			Group: "custom.example.io", Plural: "customs", Singular: "custom", Kind: "Custom", ListKind: "CustomList",
			Custom: true, Versions: []*resource.Version{{Name: "v1"}, {Name: "v2"}},
		}
		w.store.Registry().Put(d)
		synctest.Wait()
		want("with a custom resource", map[string]string{
			"v1.custom.example.io": "true 1000 100" + local,
			"v2.custom.example.io": "true 1000 100" + local,
		})
		w.remove("APIService", "v1.custom.example.io")
		w.remove("APIService", "v1.apps")
		want("removed", map[string]string{"v1.custom.example.io": "true 1000 100" + local, "v1.apps": "none"})
		w.put(`{kind: APIService, metadata: {name: v2.custom.example.io}, spec: {group: custom.example.io, version: v2, groupPriorityMinimum: 5, versionPriority: 5}}`)
		want("changed", map[string]string{"v2.custom.example.io": "true 1000 100" + local})
		w.store.Registry().Remove(schema.GroupResource{Group: "custom.example.io", Resource: "customs"})
		synctest.Wait()
		want("without the custom resource", map[string]string{"v1.custom.example.io": "none", "v2.custom.example.io": "none"})

		l.Close()
		before := w.store.State().Revision()
		w.locals().Close()
		want("at the next start", map[string]string{"v1.apps": "onstart 17800 15" + local})
		if now := w.store.State().Revision(); now != before+1 {
			t.Errorf("the next start takes %d writes, want 1", now-before)
		}
		if names := w.names(); strings.Contains(names, "gone") {
			t.Errorf("there are %s", names)
		}
	})
}

// TestChangeOfSides checks the condition of an APIService that stops naming a service, or begins
// to.
func TestChangeOfSides(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.locals().Close()
		w.register("v1")
		w.wantCondition(`Available False ServiceNotFound: service/things in "default" is not present`)
		w.put(`{kind: APIService, metadata: {name: v1.things.example.com}, spec: {group: things.example.com, version: v1, groupPriorityMinimum: 900, versionPriority: 20}}`)
		w.wantCondition("Available True Local: Local APIServices are always available")
		if w.aggregator.Load() != nil {
			t.Error("its group version is still served by another server")
		}
	})
}

// TestPublish checks that Publish adds to the config map, and removes expired certificates only.
func TestPublish(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first, second := newAuthority(t), newAuthority(t)
		publish := func(trust aggregate.Trust, own *authority) map[string]string {
			t.Helper()
			trust.Add(own.pem(), "front-proxy-client")
			for range 2 { // the second call changes nothing
				if err := aggregate.Publish(t.Context(), w.store, &trust); err != nil {
					t.Fatal(err)
				}
			}
			d := w.definition("ConfigMap")
			o, _ := w.store.State().Get(d.Key("kube-system", "extension-apiserver-authentication"))
			var m struct{ Data map[string]string }
			if err := json.Unmarshal(o.Raw, &m); err != nil {
				t.Fatal(err)
			}
			return m.Data
		}
		got := publish(aggregate.Trust{ClientCA: w.authority.pem()}, first)
		for key, want := range map[string]string{
			"client-ca-file":                     string(w.authority.pem()),
			"requestheader-client-ca-file":       string(first.pem()),
			"requestheader-allowed-names":        `["front-proxy-client"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-uid-headers":          `["X-Remote-Uid"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		} {
			if got[key] != want {
				t.Errorf("%s is %q, want %q", key, got[key], want)
			}
		}
		revision := w.store.State().Revision()
		publish(aggregate.Trust{ClientCA: w.authority.pem()}, first)
		if now := w.store.State().Revision(); now != revision {
			t.Errorf("the second call makes %d writes", now-revision)
		}
		got = publish(aggregate.Trust{ClientCA: w.authority.pem(), AllowedNames: []string{"gate"}, UsernameHeaders: []string{"X-User"}, ProxyCA: second.pem()}, second)
		if want := string(first.pem()) + string(second.pem()); got["requestheader-client-ca-file"] != want {
			t.Errorf("authorities: %s", got["requestheader-client-ca-file"])
		}
		if got["requestheader-allowed-names"] != `["front-proxy-client","gate"]` || got["requestheader-username-headers"] != `["X-Remote-User","X-User"]` {
			t.Errorf("got %v", got)
		}
	})
}

// BenchmarkStartLocals measures what the APIServices of local group versions add to a start with an
// empty store.
func BenchmarkStartLocals(b *testing.B) {
	least := time.Hour
	for b.Loop() {
		b.StopTimer()
		j := memory.New()
		st, err := state.Open(b.Context(), j, state.Options{})
		if err != nil {
			b.Fatal(err)
		}
		store := resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))
		b.StartTimer()
		begin := time.Now()
		l, err := aggregate.StartLocals(b.Context(), store, nil, slog.New(slog.DiscardHandler))
		least = min(least, time.Since(begin))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		l.Close()
		j.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(least.Microseconds()), "least-us")
}
