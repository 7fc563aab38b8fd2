//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestMappingNames(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "nginx", "nginx:1.2": "nginx-1-2-b30d26fc", "ghcr.io/Acme/web@sha256:ab": "ghcr-io-acme-web-sha256-ab-592b0ba7", "*": "684888c0",
	} {
		got := mappingName(image)
		if got != want || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
	if mappingName("a:b") == mappingName("a/b") {
		t.Error("two images have one name")
	}
}

// TestMappingsOfObjects checks which of several objects applies.
func TestMappingsOfObjects(t *testing.T) {
	object := func(name, image, program string, at int64) unstructured.Unstructured {
		u := NewMapping(image, program)
		u.SetName(name)
		u.SetCreationTimestamp(metav1.Unix(at, 0))
		return *u
	}
	items := []unstructured.Unstructured{
		object("young", "a", "/young", 2), object("old", "a", "/old", 1), object("z", "b", "/z", 1), object("y", "b", "/y", 1), object("bad", "c", "ftp://x", 1),
	}
	want := map[string]string{"a": "/old", "b": "/y"}
	for range 2 {
		if got := programsOf(items); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		slices.Reverse(items)
	}
}

// TestMappingsRetry maps an image after the preparation of its program has failed, and while it
// fails: in both cases it begins again.
func TestMappingsRetry(t *testing.T) {
	changed := make(chan string, 10)
	i := &images{dir: "/", mappings: map[string]string{"flag": "/bin/sh"}, changed: func(pod string) { changed <- pod }, pulls: map[pullKey]*pull{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}
	c := &corev1.Container{Name: "c", Image: "web"}
	i.prepare(context.Background(), pod, c)
	<-changed
	if p := i.get("pod", "c"); p.err == nil || p.wait != minBackoff {
		t.Fatalf("without a mapping: got %+v", p)
	}
	i.setObjects(map[string]string{"web": "/bin/sh", "flag": "/none"})
	if uid := <-changed; uid != "pod" {
		t.Errorf("the pod %q has changed", uid)
	}
	if p := i.get("pod", "c"); time.Since(p.at) < time.Hour || p.wait != 0 {
		t.Errorf("after a change of mappings: got %+v, want no wait", p)
	}
	i.prepare(context.Background(), pod, c)
	<-changed
	if p := i.get("pod", "c"); p.err != nil || p.path != "/bin/sh" {
		t.Errorf("with a mapping: got %+v", p)
	}
	if got := i.mapping("flag"); got != "/bin/sh" {
		t.Errorf("a flag and an object: got %s, want the program of the flag", got)
	}
	i.setObjects(map[string]string{"web": "/bin/sh", "flag": "/none"})
	if len(changed) > 0 {
		t.Error("the same mappings are a change")
	}
	// The mappings change while a preparation runs.
	i.pulls[pullKey{"pod", "d"}] = &pull{err: errors.New("failed"), running: true}
	i.setObjects(nil)
	if len(changed) > 0 {
		t.Error("a preparation that runs begins again")
	}
}
