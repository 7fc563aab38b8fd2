package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestWritesUnderALease checks that writes of all verbs with the header Kapok-Lease commit while
// the Lease exists, and not after it has been deleted or replaced.
func TestWritesUnderALease(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	const leases, maps = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/api/v1/namespaces/default/configmaps"
	create := func() string {
		text := r.must(201, "POST", leases, `{"metadata":{"name":"l"}}`)
		var lease struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal([]byte(text), &lease); err != nil {
			t.Fatal(err)
		}
		return "default/l/" + lease.Metadata.UID
	}
	write := func(code int, header string) {
		t.Helper()
		for i, request := range []struct{ method, path, body, contentType string }{
			{"POST", maps, `{"metadata":{"name":"new-%d"}}`, ""},
			{"PUT", maps + "/a", `{"metadata":{"name":"a"},"data":{"put":"%d"}}`, ""},
			{"PATCH", maps + "/a", `{"data":{"patch":"%d"}}`, "application/merge-patch+json"},
			{"PATCH", maps + "/a?fieldManager=m&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"apply":"%d"}}`, "application/apply-patch+yaml"},
			{"PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", `{"spec":{"replicas":%d}}`, "application/merge-patch+json"},
			{"DELETE", maps + "/b", "", ""},
			{"DELETE", maps + "?labelSelector=c", "", ""},
		} {
			body := request.body
			if strings.Contains(body, "%d") {
				body = fmt.Sprintf(body, code+i)
			}
			headers := []string{"Kapok-Lease", header, "Content-Type", request.contentType}
			got, text := r.do(request.method, request.path, body, headers...)
			want := code
			if code == 200 && request.method == "POST" {
				want = 201
			}
			if got != want {
				t.Errorf("%s %s: %d, want %d: %s", request.method, request.path, got, want, text)
			}
			if code == 409 && !strings.Contains(text, "leases.coordination.k8s.io/default/l with uid") {
				t.Errorf("%s %s: the error does not name the lease: %s", request.method, request.path, text)
			}
		}
	}
	prepare := func() {
		r.do("POST", maps, `{"metadata":{"name":"a"}}`)
		r.do("POST", maps, `{"metadata":{"name":"b"}}`)
		r.do("POST", maps, `{"metadata":{"name":"c","labels":{"c":""}}}`)
		r.do("DELETE", maps+"/new-200", "")
	}
	r.must(201, "POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)

	first := create()
	prepare()
	write(200, first)
	r.must(200, "DELETE", leases+"/l", "")
	prepare()
	write(409, first)
	second := create() // the same name does not revive the first
	write(409, first)
	prepare()
	write(200, second)

	for _, bad := range []string{"l", "default/l", "default/l/", "/l/u", "a/b/c/d"} {
		text := r.must(400, "POST", maps, `{"metadata":{"name":"bad"}}`, "Kapok-Lease", bad)
		if !strings.Contains(text, "NAMESPACE/NAME/UID") {
			t.Errorf("%q: %s", bad, text)
		}
	}
	r.must(200, "GET", maps+"/a", "", "Kapok-Lease", first) // reads need no lease
}

// TestWritesRaceWithTheEndOfALease checks that no write with a Lease commits after the deletion of
// the Lease, although both are sent at the same time.
func TestWritesRaceWithTheEndOfALease(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	const leases, maps = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/api/v1/namespaces/default/configmaps"
	type object struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	decode := func(text string) (o object) {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Error(err)
		}
		return o
	}
	for round := range 20 {
		lease := decode(r.must(201, "POST", leases, `{"metadata":{"name":"l"}}`))
		header := "default/l/" + lease.Metadata.UID
		var writers sync.WaitGroup
		revisions := make(chan string, 400)
		begun := make(chan struct{}, 4)
		for w := range 4 {
			writers.Go(func() {
				for i := range 100 {
					code, text := r.do("POST", maps, fmt.Sprintf(`{"metadata":{"name":"m-%d-%d-%d"}}`, round, w, i), "Kapok-Lease", header)
					if code == 409 {
						return
					}
					if code != 201 {
						t.Errorf("%d %s", code, text)
						return
					}
					revisions <- decode(text).Metadata.ResourceVersion
					if i == 0 {
						begun <- struct{}{}
					}
					if i%10 == 0 { // a renewal is no obstacle
						r.do("PATCH", leases+"/l", fmt.Sprintf(`{"metadata":{"annotations":{"i":"%d-%d"}}}`, w, i), "Content-Type", "application/merge-patch+json")
					}
				}
			})
			if w == 3 {
				<-begun
			}
		}
		r.must(200, "DELETE", leases+"/l", "")
		marker := decode(r.must(201, "POST", maps, fmt.Sprintf(`{"metadata":{"name":"marker-%d"}}`, round)))
		writers.Wait()
		close(revisions)
		n := 0
		for revision := range revisions {
			if n++; len(revision) > len(marker.Metadata.ResourceVersion) || len(revision) == len(marker.Metadata.ResourceVersion) && revision > marker.Metadata.ResourceVersion {
				t.Errorf("a write committed at %s, after the lease had been deleted before %s", revision, marker.Metadata.ResourceVersion)
			}
		}
		if n == 0 {
			t.Error("no write committed under the lease")
		}
	}
}
