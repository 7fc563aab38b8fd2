package simulated_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// awaitPod waits until a condition holds for a pod.
func awaitPod(t *testing.T, env *kapoktest.Env, p *corev1.Pod, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		env.Get(p)
		if holds() {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("pod %s: %+v", p.Name, p.Status)
		}
	}
}

// get returns the status code and the body of a path.
func get(t *testing.T, server *httptest.Server, path string) (int, string) {
	t.Helper()
	answer, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestKubelet asks the kubelet of a simulated node for logs, commands and ports, as an API server
// does.
func TestKubelet(t *testing.T) {
	env := kapoktest.Start(t)
	kubelet := &simulated.Kubelet{}
	if kubelet.Handler("node-0") != nil {
		t.Error("a kubelet that does not run has a handler")
	}
	env.Go(newManager(t, env.Config(), simulated.Options{Nodes: 2, Kubelet: kubelet}).Start)
	web := simulating(newPod("web", "node-0"), `containers: {c: {logs: "one\ntwo\nthree\n", exec: {"cat /etc/hostname": "web\n", "true": ""}}}`)
	failing := simulating(newPod("failing", "node-0"), `containers: {c: {run: 1s, exit: 1}}`)
	silent := simulating(newPod("silent", "node-0"), `containers: {c: {start: 1h}}`)
	all := simulating(newPod("all", "node-0"), `containers: {c: {logs: "", exec: {"*": "any"}}}`)
	env.Create(web, failing, silent, all)
	running := func(p *corev1.Pod) func() bool {
		return func() bool {
			return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
		}
	}
	awaitPod(t, env, web, running(web))
	awaitPod(t, env, all, running(all))
	awaitPod(t, env, failing, func() bool {
		return len(failing.Status.ContainerStatuses) > 0 && failing.Status.ContainerStatuses[0].LastTerminationState.Terminated != nil
	})
	awaitPod(t, env, silent, func() bool { return len(silent.Status.ContainerStatuses) > 0 })
	if kubelet.Handler("none") != nil {
		t.Error("a node that does not exist has a handler")
	}
	server := httptest.NewServer(kubelet.Handler("node-0"))
	defer server.Close()
	other := httptest.NewServer(kubelet.Handler("node-1"))
	defer other.Close()

	stamp := web.Status.ContainerStatuses[0].State.Running.StartedAt.UTC().Format("2006-01-02T15:04:05")
	for path, want := range map[string]string{
		"/healthz":                     "200 ok",
		"/pods":                        "404 ",
		"/containerLogs/default/web/c": "200 one\ntwo\nthree\n",
		"/containerLogs/default/web/c?tailLines=1":                    "200 three\n",
		"/containerLogs/default/web/c?tailLines=0":                    "200 ",
		"/containerLogs/default/web/c?limitBytes=5":                   "200 one\nt",
		"/containerLogs/default/web/c?timestamps=true&tailLines=1":    "200 " + stamp + ".000000000Z three\n",
		"/containerLogs/default/web/c?sinceTime=2100-01-01T00:00:00Z": "200 ",
		"/containerLogs/default/web/c?sinceSeconds=3600":              "200 one\n",
		"/containerLogs/default/web/c?stream=Stderr":                  "200 ",
		"/containerLogs/default/web/c?tailLines=x":                    `422 tailLines is "x"`,
		"/containerLogs/default/web/c?previous=true":                  `400 previous terminated container "c" in pod "web" not found`,
		"/containerLogs/default/web/d":                                `400 container "d" in pod "web" is not available`,
		"/containerLogs/default/none/c":                               `404 pod "none" not found`,
		"/containerLogs/default/silent/c":                             `400 container "c" in pod "silent" is waiting to start: ContainerCreating`,
		"/containerLogs/default/failing/c?previous=true":              "200 container c of pod failing is simulated",
		"/containerLogs/default/all/c":                                "200 ",
		"/exec/default/silent/c?command=a&output=1":                   `500 container not found ("c")`,
		"/exec/default/web/c?command=a":                               "400 you must specify at least 1 of stdin, stdout, stderr",
		"/portForward/default/web":                                    "400 pod web is simulated, and listens at no port",
	} {
		code, body := get(t, server, path)
		if !strings.HasPrefix(strconv.Itoa(code)+" "+body, want) {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if code, body := get(t, other, "/containerLogs/default/web/c"); code != http.StatusNotFound {
		t.Errorf("the log of a pod of another node: %d %s", code, body)
	}

	// A log that is followed ends with the container.
	one := simulating(newPod("one", "node-0"), `containers: {c: {run: 2s, logs: "hello\n"}}`)
	one.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(one)
	awaitPod(t, env, one, running(one))
	if code, body := get(t, server, "/containerLogs/default/one/c?follow=true"); code != http.StatusOK || body != "hello\n" {
		t.Errorf("the followed log: %d %q", code, body)
	}
	if awaitPod(t, env, one, func() bool { return true }); one.Status.ContainerStatuses[0].State.Running != nil {
		t.Error("the followed log ended before the container")
	}

	for _, test := range []struct{ pod, command, out, errs, want string }{
		{"web", "cat /etc/hostname", "web\n", "", ""},
		{"web", "true", "", "", ""},
		{"web", "sh", "", "container c of pod web is simulated, and has no program \"sh\"", "exit code 127"},
		{"all", "sh -c ls", "any", "", ""},
	} {
		query := url.Values{"command": strings.Fields(test.command), "output": {"1"}, "error": {"1"}}
		at, err := url.Parse(server.URL + "/exec/default/" + test.pod + "/c?" + query.Encode())
		if err != nil {
			t.Fatal(err)
		}
		executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, at)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || out.String() != test.out || !strings.HasPrefix(errs.String(), test.errs) {
			t.Errorf("%s in %s: %q, %q, %v, want %+v", test.command, test.pod, out.String(), errs.String(), err, test)
		}
	}

	// WebSockets, as JavaScript and Python use them, and those of newer kubelets, which are rejected.
	for protocol, want := range map[string]int{"v4.channel.k8s.io": http.StatusSwitchingProtocols, "v5.channel.k8s.io": http.StatusBadRequest, "chat, v4.base64.channel.k8s.io": http.StatusSwitchingProtocols} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/exec/default/web/c?command=true&output=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": protocol,
			"Origin": "http://localhost",
		} {
			request.Header.Set(name, value)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", protocol, answer.Status, want)
		}
	}
}
