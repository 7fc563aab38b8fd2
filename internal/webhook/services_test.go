package webhook_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestServices(t *testing.T) {
	const service = `{kind: Service, metadata: {name: hook}, spec: {type: ClusterIP, clusterIP: 10.0.0.7, ports: [{name: web, port: 443, targetPort: 9443}]}}`
	const headless = `{kind: Service, metadata: {name: hook}, spec: {clusterIP: None, ports: [{name: web, port: 443}]}}`
	const endpoints = `{kind: Endpoints, metadata: {name: hook}, subsets: [{addresses: [{ip: 10.1.0.1}], notReadyAddresses: [{ip: 10.1.0.2}], ports: [{name: web, port: 9443}, {name: other, port: 1}]}]}`
	const slice = `{kind: EndpointSlice, metadata: {name: hook-x, labels: {kubernetes.io/service-name: hook}}, ports: [{name: web, port: 9444}], endpoints: [{addresses: ["fd00::1"]}, {addresses: [10.1.0.9], conditions: {ready: false}}]}`
	for _, row := range []struct {
		name    string
		objects []string
		port    int32
		want    string
	}{
		{"nothing", nil, 443, `service "hook" not found`},
		{"cluster IP", []string{service}, 443, "10.0.0.7:443"},
		{"another port", []string{service}, 8443, `no service port 8443 found for service "hook"`},
		{"endpoints", []string{service, endpoints}, 443, "10.1.0.1:9443"},
		{"slices first", []string{service, endpoints, slice}, 443, "[fd00::1]:9444"},
		{"headless", []string{headless, slice}, 443, "[fd00::1]:9444"},
		{"headless, no endpoints", []string{headless}, 443, `cannot route to service with ClusterIP "None"`},
		{"no endpoints", []string{`{kind: Service, metadata: {name: hook}, spec: {ports: [{port: 443}]}}`}, 443, `no endpoints available for service "hook"`},
		{"external name", []string{`{kind: Service, metadata: {name: hook}, spec: {type: ExternalName, externalName: localhost}}`}, 443, "localhost:443"},
		{"external name with a port", []string{`{kind: Service, metadata: {name: hook}, spec: {type: ExternalName, externalName: localhost, ports: [{port: 443, targetPort: 9443}]}}`}, 443, "localhost:9443"},
		{"external name with the name of a port", []string{`{kind: Service, metadata: {name: hook}, spec: {type: ExternalName, externalName: localhost, ports: [{port: 443, targetPort: web}]}}`}, 443, "localhost:443"},
		{"slice of another service", []string{service, `{kind: EndpointSlice, metadata: {name: other-x, labels: {kubernetes.io/service-name: other}}, ports: [{name: web, port: 1}], endpoints: [{addresses: [10.1.0.3]}]}`}, 443, "10.0.0.7:443"},
	} {
		t.Run(row.name, func(t *testing.T) {
			j := memory.New()
			defer j.Close()
			st, err := state.Open(context.Background(), j, state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range row.objects {
				put(t, st, text)
			}
			got, err := webhook.InState(st).Resolve("default", "hook", row.port)
			if err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func put(t *testing.T, st *state.State, text string) {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	gr := map[string]schema.GroupResource{
		"Service": {Resource: "services"}, "Endpoints": {Resource: "endpoints"},
		"EndpointSlice": {Group: "discovery.k8s.io", Resource: "endpointslices"},
	}[tree["kind"].(string)]
	metadata := tree["metadata"].(map[string]any)
	metadata["uid"] = "u"
	o, err := object.New(object.Key{Resource: gr, Namespace: "default", Name: metadata["name"].(string)}, tree, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(context.Background(), journal.Batch{Entries: []journal.Entry{{Key: o.Key, Object: o}}}); err != nil {
		t.Fatal(err)
	}
}
