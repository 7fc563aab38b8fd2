package aggregate_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	clusterService = `{kind: Service, metadata: {name: things}, spec: {type: ClusterIP, sessionAffinity: None, ports: [{name: %s, port: %d, targetPort: 8443, protocol: TCP}]}}`
	emptySlice     = `{kind: EndpointSlice, metadata: {name: things-x, labels: {kubernetes.io/service-name: things}}, addressType: IPv4, ports: [{name: web, port: 8443, protocol: TCP}], endpoints: []}`
	readySlice     = `{kind: EndpointSlice, metadata: {name: things-x, labels: {kubernetes.io/service-name: things}}, addressType: IPv4, ports: [{name: web, port: 8443, protocol: TCP}], endpoints: [{addresses: [10.1.0.1]}]}`
	otherSlice     = `{kind: EndpointSlice, metadata: {name: other-x, labels: {kubernetes.io/service-name: other}}, addressType: IPv4, ports: [{name: web, port: 1, protocol: TCP}], endpoints: [{addresses: [10.1.0.2]}]}`
)

// TestConditions checks that the condition of an APIService follows its service, the endpoints, and
// the responses.
func TestConditions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.register("v1")
		w.wantCondition(`Available False ServiceNotFound: service/things in "default" is not present`)
		w.put(fmt.Sprintf(clusterService, "web", 80))
		w.wantCondition(`Available False ServicePortError: service/things in "default" is not listening on port 443`)
		w.put(fmt.Sprintf(clusterService, "web", 443))
		w.wantCondition(`Available False EndpointsNotFound: cannot find endpointslices for service/things in "default"`)
		w.put(otherSlice)
		w.wantCondition(`Available False EndpointsNotFound: cannot find endpointslices for service/things in "default"`)
		w.put(emptySlice)
		w.wantCondition(`Available False MissingEndpoints: endpointslices for service/things in "default" have no addresses with port name "web"`)
		w.put(readySlice)
		w.wantCondition(`Available False FailedDiscoveryCheck: failing or missing response from https://10.1.0.1:8443/apis/things.example.com/v1: ` +
			`Get "https://10.1.0.1:8443/apis/things.example.com/v1": connection refused`)
		since := w.apiService("v1.things.example.com").Status.Conditions[0].LastTransitionTime

		time.Sleep(10 * time.Second) // longer than the resolution of transition times
		var code atomic.Int32
		code.Store(http.StatusOK)
		serve := func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Remote-User") != "system:kube-aggregator" || r.Header.Get("X-Remote-Group") != "system:masters" {
				t.Errorf("the user of a probe is %v", r.Header)
			}
			rw.WriteHeader(int(code.Load()))
		}
		stop := w.serve("10.1.0.1:8443", "things.default.svc", serve)
		time.Sleep(time.Minute)
		w.wantCondition(passed)
		if now := w.apiService("v1.things.example.com").Status.Conditions[0].LastTransitionTime; !now.After(since.Time) {
			t.Errorf("the transition time is %v, and was %v", now, since)
		}

		code.Store(http.StatusForbidden)
		time.Sleep(31 * time.Second)
		w.wantCondition(`Available False FailedDiscoveryCheck: failing or missing response from https://10.1.0.1:8443/apis/things.example.com/v1: ` +
			`bad status from https://10.1.0.1:8443/apis/things.example.com/v1: 403`)
		code.Store(http.StatusFound)
		time.Sleep(31 * time.Second)
		w.wantCondition(`Available False FailedDiscoveryCheck: failing or missing response from https://10.1.0.1:8443/apis/things.example.com/v1: ` +
			`bad status from https://10.1.0.1:8443/apis/things.example.com/v1: 302`)
		code.Store(http.StatusOK)
		time.Sleep(31 * time.Second)
		w.wantCondition(passed)
		stop()
		time.Sleep(31 * time.Second)
		if got := w.condition(); !strings.HasPrefix(got, "Available False FailedDiscoveryCheck: failing or missing response") {
			t.Errorf("without a server the condition is %q", got)
		}

		w.remove("Service", "things")
		w.wantCondition(`Available False ServiceNotFound: service/things in "default" is not present`)
	})
}

// TestSlowServer checks that a server that does not respond in time is unavailable, and that the
// probe waits no longer than that.
func TestSlowServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve("things.test:8443", "things.default.svc", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		w.things()
		w.wantCondition("")
		time.Sleep(6 * time.Second)
		if got := w.condition(); !strings.HasPrefix(got, "Available False FailedDiscoveryCheck: ") || !strings.Contains(got, "context deadline exceeded") {
			t.Errorf("the condition is %q", got)
		}
	})
}

// TestCertificates checks that a certificate for another host, or of another authority, is rejected
// unless the APIService skips verification.
func TestCertificates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ok := func(http.ResponseWriter, *http.Request) {}
		stop := w.serve("things.test:8443", "other.default.svc", ok)
		w.things()
		if got := w.condition(); !strings.Contains(got, "certificate is valid for other.default.svc, not things.default.svc") {
			t.Errorf("with a wrong name the condition is %q", got)
		}
		stop()
		trusted := w.authority
		w.authority = newAuthority(t)
		w.serve("things.test:8443", "things.default.svc", ok)
		w.authority = trusted
		time.Sleep(time.Minute)
		if got := w.condition(); !strings.Contains(got, "certificate signed by unknown authority") {
			t.Errorf("with a wrong authority the condition is %q", got)
		}
		w.put(`{kind: APIService, metadata: {name: v1.things.example.com}, spec: {group: things.example.com, version: v1,
			groupPriorityMinimum: 900, versionPriority: 20, insecureSkipTLSVerify: true, service: {namespace: default, name: things, port: 443}}}`)
		w.wantCondition(passed)
	})
}

// TestIdle checks that a server without an APIService with a service makes no requests and has no
// timers.
func TestIdle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(`{kind: APIService, metadata: {name: v1.here.example.com}, spec: {group: here.example.com, version: v1, groupPriorityMinimum: 900, versionPriority: 20}}`)
		w.put(thingsService)
		time.Sleep(24 * time.Hour)
		if w.aggregator.Load() != nil || len(w.calls) > 0 {
			t.Errorf("without APIServices there are remotes %v and calls %v", w.aggregator.Load(), w.calls)
		}
		w.register("v1")
		time.Sleep(time.Minute)
		w.remove("APIService", "v1.things.example.com")
		w.calls = nil
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if w.aggregator.Load() != nil || len(w.calls) > 0 {
			t.Errorf("after the last APIService is deleted there are remotes %v and calls %v", w.aggregator.Load(), w.calls)
		}
	})
}
