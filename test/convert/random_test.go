package convert

import (
	"cmp"
	"encoding/json"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/versions"
	"github.com/kapok-dev/kapok/test/seeds"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubetesting "k8s.io/kubernetes/pkg/api/testing"
)

// kinds returns the kinds with metadata that both know. TestLists covers lists.
func kinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for gvk := range versions.Scheme().AllKnownTypes() {
		meta := strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" || strings.HasSuffix(gvk.Kind, "List")
		unversioned := gvk.Kind == "Status" || strings.HasPrefix(gvk.Kind, "API")
		if gvk.Version != runtime.APIVersionInternal && !meta && !unversioned && legacyscheme.Scheme.Recognizes(gvk) {
			all = append(all, gvk)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// targets returns the versions in which Kubernetes has a kind.
func targets(gvk schema.GroupVersionKind) []schema.GroupVersion {
	obj, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Group: gvk.Group, Version: runtime.APIVersionInternal, Kind: gvk.Kind})
	if err != nil {
		return []schema.GroupVersion{gvk.GroupVersion()}
	}
	gvks, _, err := legacyscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil
	}
	var all []schema.GroupVersion
	for _, internal := range gvks {
		for _, gv := range legacyscheme.Scheme.PrioritizedVersionsForGroup(internal.Group) {
			if legacyscheme.Scheme.Recognizes(gv.WithKind(gvk.Kind)) {
				all = append(all, gv)
			}
		}
	}
	return all
}

func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRandom compares conversions of random objects of every version to every version.
func TestRandom(t *testing.T) {
	seed, rounds := int64(seeds.Of(t)), number(t, "KAPOK_CONVERT_ROUNDS", 10)
	compared, refused := 0, 0
	for _, gvk := range kinds() {
		t.Run(gvk.GroupVersion().String()+" "+gvk.Kind, func(t *testing.T) {
			filler := fuzzer.FuzzerFor(kubetesting.FuzzerFuncs, rand.NewSource(seed), legacyscheme.Codecs)
			for round := range rounds {
				obj, err := legacyscheme.Scheme.New(gvk)
				if err != nil {
					t.Fatal(err)
				}
				if round > 0 { // the first object is empty
					filler.Fill(obj)
				}
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				data, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				for _, target := range targets(gvk) {
					if !compare(t, data, target) {
						refused++
					}
					compared++
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	t.Logf("%d conversions compared, of which both refuse %d", compared, refused)
}

// compare compares one conversion with the judge's, and reports whether there is a result.
func compare(t *testing.T, data []byte, target schema.GroupVersion) bool {
	t.Helper()
	for attempt := 0; ; attempt++ {
		want, wantErr := judge(data, target)
		got, err := versions.Convert(data, target, nil)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("to %s of %s\nerror is %v, Kubernetes says %v", target, data, err, wantErr)
		}
		if err != nil {
			return false
		}
		a, err := form(want)
		if err != nil {
			t.Fatal(err)
		}
		b, err := form(got)
		if err != nil {
			t.Fatal(err)
		}
		diff := gocmp.Diff(a, b)
		if diff == "" {
			return true
		}
		if attempt == 2 || !strings.Contains(diff, "timeAdded") { // a default that is the present time
			t.Fatalf("to %s of %s\n(-Kubernetes +Kapok)\n%s", target, data, diff)
		}
	}
}
