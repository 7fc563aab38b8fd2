package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const zpageWarning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"

func TestZPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(o *Options) {
			o.Version.GoVersion = "go1.26.8"
			o.Flags = map[string]string{"listen": "127.0.0.1:6443", "audit-log-path": ""}
		})
		time.Sleep(3*time.Hour + 4*time.Minute + 5*time.Second)
		status := "\napiserver statusz\n" + zpageWarning + `
Started: Sat Jan  1 00:00:00 UTC 2000
Up: 3 hr 04 min 05 sec
Go version: go1.26.8
Binary version: 1.37.0+kapok
Emulation version: 1.37
Paths: /flagz /healthz /livez /metrics /readyz /statusz /version
`
		flags := "\napiserver flagz\n" + zpageWarning + "audit-log-path=\nlisten=127.0.0.1:6443\n"
		structured := func(version, rest string) string {
			return `{"kind":"Statusz","apiVersion":"config.k8s.io/` + version + `","metadata":{"name":"apiserver"},` +
				`"startTime":"2000-01-01T00:00:00Z","uptimeSeconds":11045,"goVersion":"go1.26.8","binaryVersion":"1.37.0+kapok","emulationVersion":"1.37",` +
				`"paths":["/flagz","/healthz","/livez","/metrics","/readyz","/statusz","/version"]}` + rest
		}
		const none = "only the following media types are accepted: application/json, application/yaml, text/plain"
		for _, test := range []struct {
			path, accept string
			code         int
			contentType  string
			body         string // a part of it, if the code is not 200
		}{
			{"/statusz", "", 200, "text/plain; charset=utf-8", status},
			{"/statusz", "text/plain", 200, "text/plain; charset=utf-8", status},
			{"/statusz", "application/json, */*", 200, "text/plain; charset=utf-8", status},
			{"/statusz", "application/json;as=Statusz;g=config.k8s.io;v=v1beta1", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", structured("v1beta1", "\n")},
			{"/statusz", "text/html, application/json;as=Statusz;g=config.k8s.io;v=v1alpha1", 200, "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz", structured("v1alpha1", "\n")},
			{"/statusz", "application/json", 406, "application/json", none},
			{"/statusz", "application/json;as=Flagz;g=config.k8s.io;v=v1beta1", 406, "application/json", none},
			{"/statusz", "application/json;as=Statusz;g=config.k8s.io;v=v1", 406, "application/json", none},
			{"/statusz", "application/vnd.kubernetes.protobuf;as=Statusz;g=config.k8s.io;v=v1beta1", 406, "application/json", none},
			{"/statusz", "text/plain;as=Statusz;g=config.k8s.io;v=v1beta1", 406, "application/json", none},
			{"/statusz/", "", 404, "text/plain; charset=utf-8", "404 page not found"},
			{"/flagz", "*/*", 200, "text/plain; charset=utf-8", flags},
			{"/flagz", "application/yaml;as=Flagz;g=config.k8s.io;v=v1beta1", 200, "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz",
				"apiVersion: config.k8s.io/v1beta1\nflags:\n  audit-log-path: \"\"\n  listen: 127.0.0.1:6443\nkind: Flagz\nmetadata:\n  name: apiserver\n"},
		} {
			w := s.do(http.MethodGet, test.path, "", "Accept", test.accept)
			got := w.Body.String()
			if w.Code != test.code || w.Header().Get("Content-Type") != test.contentType || (test.code == 200 && got != test.body) || !strings.Contains(got, test.body) {
				t.Errorf("%s, Accept %q: %d, %s\n%s", test.path, test.accept, w.Code, w.Header().Get("Content-Type"), got)
			}
			old := strings.Contains(test.accept, "v=v1alpha1")
			if warning := w.Header().Get("Warning"); strings.HasPrefix(warning, `299 - "This version of the statusz endpoint is deprecated`) != old {
				t.Errorf("%s, Accept %q: the warning is %q", test.path, test.accept, warning)
			}
		}
		s.must(403, http.MethodGet, "/statusz", "", "Authorization", "")
		if index := s.must(200, http.MethodGet, "/", ""); !strings.Contains(index, `"/statusz"`) || !strings.Contains(index, `"/flagz"`) {
			t.Errorf("the index lacks a page:\n%s", index)
		}

		bare := newServer(t)
		bare.must(404, http.MethodGet, "/flagz", "")
		if index := bare.must(200, http.MethodGet, "/", ""); strings.Contains(index, "flagz") {
			t.Errorf("the index has a page that does not exist:\n%s", index)
		}
	})
}
