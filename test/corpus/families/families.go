// Package families lists the metrics of a Kubernetes API server: their names, types and labels.
//
// Those of kube-apiserver are in testdata, recorded by test/oracle; here Kapok is compared with
// them. Both get the same requests first, since most metrics exist only once they have a value.
package families

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// A request is one that the server counts.
type request struct {
	method, path, body string
	header             map[string]string
	anonymous          bool
}

// lastHook is the index of the last request that configures webhooks.
const lastHook = 1

// requests are sent in this order. The webhooks, which cannot be reached and are ignored, are
// called by the requests after them.
var requests = []request{
	{method: "POST", path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", body: hook("Validating")},
	{method: "POST", path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", body: hook("Mutating")},
	{method: "POST", path: "/api/v1/namespaces/default/configmaps", body: `{"metadata":{"name":"counted","labels":{"counted":"yes"}},"data":{"k":"v"}}`},
	{method: "POST", path: "/api/v1/namespaces/default/configmaps?dryRun=All", body: `{"metadata":{"name":"other"}}`},
	{method: "GET", path: "/api/v1/namespaces/default/configmaps/counted"},
	{method: "PUT", path: "/api/v1/namespaces/default/configmaps/counted", body: `{"metadata":{"name":"counted"}}`},
	{method: "PATCH", path: "/api/v1/namespaces/default/configmaps/counted", body: `{"data":{"k":"w"}}`, header: map[string]string{"Content-Type": "application/merge-patch+json"}},
	{method: "GET", path: "/api/v1/configmaps?limit=1"},
	{method: "GET", path: "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1&resourceVersion=0"},
	{method: "GET", path: "/api/v1/namespaces/default/endpoints"}, // deprecated
	{method: "GET", path: "/api/v1/namespaces/default/secrets", header: map[string]string{"Impersonate-User": "eve"}},
	{method: "GET", path: "/api/v1/namespaces/default/secrets", header: map[string]string{"Authorization": "Bearer invalid"}, anonymous: true},
	{method: "GET", path: "/readyz"},
	{method: "DELETE", path: "/api/v1/namespaces/default/configmaps/counted"},
	{method: "DELETE", path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/counted"},
	{method: "DELETE", path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/counted"},
}

// hook returns a configuration with a webhook that is called, and with two whose conditions are
// false or an error.
func hook(kind string) string {
	var all []string
	for i, condition := range []string{"true", "false", "object.absent == 1"} {
		all = append(all, fmt.Sprintf(`{"name":"counted%d.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore","timeoutSeconds":1,
		"clientConfig":{"url":"https://127.0.0.1:1/"},"matchConditions":[{"name":"condition","expression":%q}],
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE","UPDATE"]}]}`, i, condition))
	}
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sWebhookConfiguration","metadata":{"name":"counted"},"webhooks":[%s]}`, kind, strings.Join(all, ","))
}

// A Family is a metric with all its series: its type, and its labels in the order of the alphabet.
type Family struct {
	Name, Type, Labels string
}

// String returns the family as a line of testdata.
func (f Family) String() string { return strings.TrimSpace(f.Name + " " + f.Type + " " + f.Labels) }

// Ask sends the requests to a server, and returns its metrics in the order of their names.
func Ask(ctx context.Context, config *rest.Config) ([]Family, error) {
	known, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	stranger, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(config.Host, "/")
	for i, q := range requests {
		client := known
		if q.anonymous {
			client = stranger
		}
		if err := q.send(ctx, client, host); err != nil {
			return nil, fmt.Errorf("%s %s: %w", q.method, q.path, err)
		}
		if i == lastHook {
			if err := awaitHooks(ctx, known, host); err != nil {
				return nil, err
			}
		}
	}
	return read(ctx, known, host)
}

func (q *request) send(ctx context.Context, client *http.Client, host string) error {
	r, err := http.NewRequestWithContext(ctx, q.method, host+q.path, strings.NewReader(q.body))
	if err != nil {
		return err
	}
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// awaitHooks waits until webhooks of both kinds are called: kube-apiserver learns of configurations
// by a watch.
func awaitHooks(ctx context.Context, client *http.Client, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	create := request{method: "POST", path: "/api/v1/namespaces/default/configmaps?dryRun=All", body: `{"metadata":{"name":"other"}}`}
	for {
		if err := create.send(ctx, client, host); err != nil {
			return err
		}
		metrics, err := text(ctx, client, host)
		if err != nil {
			return err
		}
		called := 0
		for _, line := range strings.Split(metrics, "\n") {
			if strings.HasPrefix(line, "apiserver_admission_webhook_request_total{") {
				called++
			}
		}
		if called == 2 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("webhooks are not called: %w", ctx.Err())
		}
	}
}

// text returns the metrics in the text format.
func text(ctx context.Context, client *http.Client, host string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET /metrics: %s", answer.Status)
	}
	all, err := io.ReadAll(answer.Body)
	return string(all), err
}

func read(ctx context.Context, client *http.Client, host string) ([]Family, error) {
	metrics, err := text(ctx, client, host)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		return nil, err
	}
	var all []Family
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		all = append(all, Family{name, strings.ToLower(parsed[name].GetType().String()), labels(parsed[name])})
	}
	return all, nil
}

// labels returns the labels of all series.
func labels(f *dto.MetricFamily) string {
	found := map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			found[l.GetName()] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ",")
}
