package reaper

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStorageInUse checks that objects stay as long as they are in use.
func TestStorageInUse(t *testing.T) {
	meta := func(name, protector string) resource.Tree {
		m := resource.Tree{"name": name}
		if protector != "" {
			m["finalizers"] = []any{protector}
		}
		return m
	}
	claim := func(name, class string) resource.Tree {
		spec := resource.Tree{"accessModes": []any{"ReadWriteOnce"}, "resources": resource.Tree{"requests": resource.Tree{"storage": "1Gi"}}}
		if class != "" {
			spec["volumeAttributesClassName"] = class
		}
		return resource.Tree{"metadata": meta(name, "kubernetes.io/pvc-protection"), "spec": spec}
	}
	pod := func(name, node, claim string) resource.Tree {
		spec := resource.Tree{
			"containers": []any{resource.Tree{"name": "c", "image": "i"}},
			"volumes":    []any{resource.Tree{"name": "v", "persistentVolumeClaim": resource.Tree{"claimName": claim}}},
		}
		if node != "" {
			spec["nodeName"] = node
		}
		return resource.Tree{"metadata": meta(name, ""), "spec": spec}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		create := func(kind, namespace string, obj resource.Tree) object.Key {
			t.Helper()
			name := obj["metadata"].(resource.Tree)["name"].(string)
			return s.mustCreate(kind, namespace, name, func(into resource.Tree) { maps.Copy(into, obj) }).Key
		}
		remove := func(key object.Key) {
			t.Helper()
			zero := int64(0)
			d := s.store.Registry().Load().Resource(key.Resource)
			if _, err := s.store.Delete(t.Context(), request(d, key, "", nil), &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		check := func(key object.Key, there bool) {
			t.Helper()
			if o, _ := s.store.State().Get(key); (o != nil) != there {
				t.Errorf("%s exists: %v", key, o != nil)
			}
		}
		used, free := create("PersistentVolumeClaim", "n", claim("used", "")), create("PersistentVolumeClaim", "n", claim("free", ""))
		create("Pod", "n", pod("waits", "", "free"))
		runs := create("Pod", "n", pod("runs", "node", "used"))
		remove(free)
		check(free, false)
		remove(used)
		check(used, true)
		remove(runs)
		check(used, false)

		class := create("VolumeAttributesClass", "", resource.Tree{"metadata": meta("gold", "kubernetes.io/vac-protection"), "driverName": "example.com", "parameters": resource.Tree{"a": "b"}})
		golden := create("PersistentVolumeClaim", "m", claim("golden", "gold"))
		remove(class)
		check(class, true)
		remove(golden)
		check(golden, false)
		time.Sleep(unusedAfter + time.Second)
		synctest.Wait()
		check(class, false)
	})
}
