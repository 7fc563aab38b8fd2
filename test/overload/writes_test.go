package overload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// body returns an object with a list in the middle that repeats an element.
func body(begin, item string, n int, end string) []byte {
	return []byte(begin + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + end)
}

// bigWrites are bodies at the limit of 3 MiB whose clients disconnect: a million empty objects
// each.
func bigWrites(ctx context.Context, b *battle) {
	const n = 1_000_000
	bodies := []shot{
		{path: attacked + "/configmaps", body: body(`{"metadata":{"name":"x"},"unknown":[`, `{}`, n, `]}`)},
		{path: attacked + "/pods", body: body(`{"metadata":{"name":"x"},"spec":{"containers":[`, `{}`, n, `]}}`)},
		{path: attacked + "/configmaps?fieldValidation=Strict", body: body(`{"metadata":{"name":"x"},"data":[`, `{}`, n, `]}`)},
		{path: attacked + "/services", body: body(`{"metadata":{"name":"x"},"spec":{"ports":[`, `{}`, n, `]}}`)},
	}
	b.flood(ctx, "attacker", 16, func(client, i int) shot {
		s := bodies[(client+i)%len(bodies)]
		s.method, s.leaves = http.MethodPost, 50*time.Millisecond
		return s
	})
}

// manyContainers are pods that are invalid in very many places.
func manyContainers(ctx context.Context, b *battle) {
	var bodies [][]byte
	for _, n := range []int{10_000, 30_000, 100_000} {
		bodies = append(bodies, body(`{"metadata":{"name":"x"},"spec":{"containers":[`, `{}`, n, `]}}`))
	}
	b.flood(ctx, "attacker", 8, func(client, i int) shot {
		return shot{method: http.MethodPost, path: attacked + "/pods", body: bodies[(client+i)%len(bodies)], leaves: time.Second}
	})
}

// bigConfigMaps repeatedly writes valid objects of the maximum size.
func bigConfigMaps(ctx context.Context, b *battle) {
	var bodies [][]byte
	for i := range 2 {
		object := named("", map[string]any{"data": map[string]any{"text": strings.Repeat(string(rune('a'+i)), 1_000_000)}})
		delete(object, "metadata")
		data, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		bodies = append(bodies, data)
	}
	b.flood(ctx, "attacker", 16, func(client, i int) shot {
		name := fmt.Sprintf("big-%d", client)
		if i == 0 {
			return shot{method: http.MethodPost, path: attacked + "/configmaps", body: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}
		}
		return shot{method: http.MethodPatch, path: attacked + "/configmaps/" + name, contentType: "application/merge-patch+json", body: bodies[i%2]}
	})
}

// wideApply applies objects with very many fields, and removes half of these again.
func wideApply(ctx context.Context, b *battle) {
	const fields = 20_000
	var bodies [2][]byte
	for half := range bodies {
		data := map[string]string{}
		for i := 0; i < fields; i += 1 + half {
			data[fmt.Sprintf("key-%05d", i)] = fmt.Sprint(half)
		}
		var err error
		if bodies[half], err = json.Marshal(data); err != nil {
			panic(err)
		}
	}
	b.flood(ctx, "attacker", 8, func(client, i int) shot {
		name := fmt.Sprintf("wide-%d", client)
		return shot{
			method: http.MethodPatch, path: fmt.Sprintf("%s/configmaps/%s?fieldManager=m%d&force=true", attacked, name, i%4), contentType: "application/apply-patch+yaml",
			body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":%s}`, name, bodies[i%2]),
		}
	})
}

// growingPatches are small JSON patches with large results: they copy their own copies, or have
// very many operations.
func growingPatches(ctx context.Context, b *battle) {
	var doubling, many []any
	doubling = append(doubling, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"a": strings.Repeat("x", 1000)}})
	for i := range 24 {
		doubling = append(doubling, map[string]any{"op": "copy", "from": "/metadata/annotations", "path": fmt.Sprintf("/metadata/annotations/a%d", i)})
	}
	many = append(many, map[string]any{"op": "add", "path": "/metadata/finalizers", "value": []any{}})
	for i := range 9_999 {
		many = append(many, map[string]any{"op": "add", "path": "/metadata/finalizers/0", "value": fmt.Sprintf("example.com/f%d", i)})
	}
	var bodies [][]byte
	for _, patch := range [][]any{doubling, many} {
		data, err := json.Marshal(patch)
		if err != nil {
			panic(err)
		}
		bodies = append(bodies, data)
	}
	b.flood(ctx, "attacker", 8, func(client, i int) shot {
		return shot{
			method: http.MethodPatch, path: fmt.Sprintf("%s/configmaps/c%05d", attacked, client), contentType: "application/json-patch+json",
			body: bodies[i%len(bodies)],
		}
	})
}

// defineWidgets creates a kind with a schema that reports many errors, and lets the role edit write
// it.
func defineWidgets(ctx context.Context, b *battle) error {
	const definition = `{"metadata":{"name":"widgets.overload.example.com"},"spec":{"group":"overload.example.com","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"parts":{"type":"array","items":{"type":"object","required":["name","size"],"properties":{
				"name":{"type":"string","pattern":"^([a-z]+-)*[a-z]+$","maxLength":63},"colour":{"type":"string","enum":["red","green","blue"]},"size":{"type":"integer","minimum":1}}}},
			"tags":{"type":"array","maxItems":1000,"x-kubernetes-list-type":"set","items":{"type":"string","maxLength":20}}},
			"x-kubernetes-validations":[{"rule":"!has(self.tags) || self.tags.all(t, t.startsWith('t'))"}]}}}}}]}}`
	if _, err := b.server.do(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(definition)); err != nil {
		return err
	}
	role := []byte(`{"metadata":{"name":"overload-widgets","labels":{"rbac.authorization.k8s.io/aggregate-to-edit":"true"}},
		"rules":[{"apiGroups":["overload.example.com"],"resources":["widgets"],"verbs":["*"]}]}`)
	if _, err := b.server.do(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role); err != nil {
		return err
	}
	config, err := b.server.config("attacker")
	if err != nil {
		return err
	}
	c, err := newClient(config, true)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	for {
		code, answer, err := exchange(ctx, c, http.MethodGet, config.Host+"/apis/overload.example.com/v1/namespaces/attack/widgets", "", nil)
		switch {
		case err != nil:
			return err
		case code == http.StatusOK:
			return nil
		case code != http.StatusNotFound && code != http.StatusForbidden && code != http.StatusServiceUnavailable:
			return fmt.Errorf("%d %s", code, answer)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// badCustomResources have invalid values in very many places.
func badCustomResources(ctx context.Context, b *battle) {
	bodies := [][]byte{
		body(`{"apiVersion":"overload.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"parts":[`, `{"name":7,"colour":"pink","size":-1}`, 70_000, `]}}`),
		body(`{"apiVersion":"overload.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"parts":[`, `{"a":{}}`, 200_000, `]}}`),
		body(`{"apiVersion":"overload.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"tags":[`, `"same"`, 300_000, `]}}`),
	}
	b.flood(ctx, "attacker", 8, func(client, i int) shot {
		s := shot{method: http.MethodPost, path: "/apis/overload.example.com/v1/namespaces/attack/widgets", body: bodies[(client+i)%len(bodies)]}
		if i%2 == 0 {
			s.leaves = 100 * time.Millisecond
		}
		return s
	})
}
