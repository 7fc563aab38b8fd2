// Package auditlog sends requests to a Kubernetes API server and compares its audit log.
//
// The events of kube-apiserver are in testdata, recorded by test/oracle; here Kapok is compared
// with them. Both run with the policy [Policy].
package auditlog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Policy is the audit policy that the server must be started with.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Panic]
rules:
- level: None
  nonResourceURLs: ["/healthz"]
- level: Metadata
  namespaces: [audited]
  resources:
  - group: ""
    resources: [secrets, "*/token"]
- level: Request
  namespaces: [audited]
  verbs: [patch]
  omitStages: [RequestReceived]
- level: RequestResponse
  namespaces: [audited]
  resources:
  - group: ""
    resources: [configmaps]
    resourceNames: [bare]
  omitManagedFields: true
- level: RequestResponse
  namespaces: [audited]
- level: Metadata
  nonResourceURLs: ["/version", "/nothing/*"]
- level: None
`

// questions are sent in this order; <N> is the number of the question.
var questions = []struct {
	title        string
	method, path string
	header       map[string]string
	body         string
	anonymous    bool
}{
	{title: "a path", method: "GET", path: "/version"},
	{title: "a path that the policy leaves out", method: "GET", path: "/healthz"},
	{title: "a path that is not served", method: "GET", path: "/nothing/here"},
	{title: "create", method: "POST", path: "/api/v1/namespaces/audited/configmaps", body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`},
	{title: "create what is there", method: "POST", path: "/api/v1/namespaces/audited/configmaps", body: `{"metadata":{"name":"a"}}`},
	{title: "create with a generated name", method: "POST", path: "/api/v1/namespaces/audited/configmaps", body: `{"metadata":{"generateName":"g-"}}`},
	{title: "a body that is no object", method: "POST", path: "/api/v1/namespaces/audited/configmaps", body: `{`},
	{title: "create without managed fields", method: "POST", path: "/api/v1/namespaces/audited/configmaps/", body: `{"metadata":{"name":"bare","managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1"}]}}`},
	{title: "get without managed fields", method: "GET", path: "/api/v1/namespaces/audited/configmaps/bare"},
	{title: "get what is not there", method: "GET", path: "/api/v1/namespaces/audited/configmaps/none"},
	{title: "update", method: "PUT", path: "/api/v1/namespaces/audited/configmaps/a", body: `{"metadata":{"name":"a"},"data":{"k":"w"}}`},
	{title: "merge patch", method: "PATCH", path: "/api/v1/namespaces/audited/configmaps/a", header: map[string]string{"Content-Type": "application/merge-patch+json"}, body: `{"data":{"l":"m"}}`},
	{title: "apply in YAML", method: "PATCH", path: "/api/v1/namespaces/audited/configmaps/a?fieldManager=me&force=true", header: map[string]string{"Content-Type": "application/apply-patch+yaml"}, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n"},
	{title: "list with a selector", method: "GET", path: "/api/v1/namespaces/audited/configmaps?labelSelector=a%3Db&limit=3"},
	{title: "metadata alone", method: "POST", path: "/api/v1/namespaces/audited/secrets", body: `{"metadata":{"name":"s"},"stringData":{"p":"secret"}}`},
	{title: "as another user, without permission", method: "GET", path: "/api/v1/namespaces/audited/configmaps", header: map[string]string{"Impersonate-User": "eve", "Impersonate-Group": "spies"}},
	{title: "watch", method: "GET", path: "/api/v1/namespaces/audited/configmaps?watch=true&timeoutSeconds=1&resourceVersion=0&labelSelector=a%3Db"},
	{title: "a stranger with a token", method: "GET", path: "/api/v1/namespaces/audited/configmaps", anonymous: true, header: map[string]string{"Authorization": "Bearer wrong"}},
	{title: "a stranger", method: "GET", path: "/version", anonymous: true},
	{title: "delete", method: "DELETE", path: "/api/v1/namespaces/audited/configmaps/a"},
	{title: "delete with options", method: "DELETE", path: "/api/v1/namespaces/audited/configmaps/bare", body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
	{title: "delete a collection", method: "DELETE", path: "/api/v1/namespaces/audited/configmaps?labelSelector=a%3Db"},
}

// Ask sends the requests to a server that writes its audit log to a file, and returns the events,
// without values that differ between runs.
func Ask(ctx context.Context, config *rest.Config, file string) (string, error) {
	known, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	stranger, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return "", err
	}
	ask := func(client *http.Client, method, path, id, body string, header map[string]string) error {
		r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(config.Host, "/")+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for k, v := range header {
			r.Header.Set(k, v)
		}
		r.Header.Set("User-Agent", "auditor")
		r.Header.Set("Audit-ID", id)
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	if err := ask(known, "POST", "/api/v1/namespaces", "namespace", `{"metadata":{"name":"audited"}}`, nil); err != nil {
		return "", err
	}
	for i, q := range questions {
		client := known
		if q.anonymous {
			client = stranger
		}
		if err := ask(client, q.method, q.path, fmt.Sprintf("question-%02d", i), q.body, q.header); err != nil {
			return "", fmt.Errorf("%s: %w", q.title, err)
		}
	}
	events, err := read(ctx, file)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, q := range questions {
		fmt.Fprintf(&out, "# %s: %s %s\n", q.title, q.method, q.path)
		for _, e := range events[fmt.Sprintf("question-%02d", i)] {
			out.WriteString(normalize(e))
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// read returns the events of each request, once those of the last one are complete.
func read(ctx context.Context, file string) (map[string][]map[string]any, error) {
	last := fmt.Sprintf("question-%02d", len(questions)-1)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		events := map[string][]map[string]any{}
		for line := range bytes.Lines(data) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			var e map[string]any
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("a line of the log: %w", err)
			}
			id, _ := e["auditID"].(string)
			events[id] = append(events[id], e)
		}
		if of := events[last]; len(of) > 0 && of[len(of)-1]["stage"] == "ResponseComplete" {
			return events, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the log lacks the last event: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`("resourceVersion": )"[1-9]\d*"`), `$1"<rv>"`},
	{regexp.MustCompile(`g-[a-z0-9]{5}`), "g-<random>"},
	{regexp.MustCompile(`"(admin|kubernetes-admin)"`), `"<admin>"`},
}

func normalize(e map[string]any) string {
	if user, ok := e["user"].(map[string]any); ok {
		delete(user, "uid") // of the admin, whose uid differs
		delete(user, "extra")
	}
	delete(e, "sourceIPs")
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(e)) {
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(map[string]any{key: e[key]}); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&out, "  %s", value.Bytes())
	}
	text := regexp.MustCompile(`":`).ReplaceAllString(out.String(), `": `)
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text + "  -\n"
}
