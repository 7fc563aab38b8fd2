package overload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// attacks is the table.
func attacks() []attack {
	return []attack{
		{name: "smallRequests", run: smallRequests},
		{name: "strangers", run: strangers},
		{name: "continueTokens", prepare: fillConfigMaps(2000, 2000), run: continueTokens, keeps: 48 << 20},
		{name: "roleChurn", role: "admin", prepare: fillBindings, run: roleChurn, keeps: 32 << 20},
		{name: "unreadProtobuf", prepare: fillConfigMaps(2000, 2000), run: unread("application/vnd.kubernetes.protobuf", 100), keeps: 16 << 20},
		// If CBOR is not served, the response is JSON.
		{name: "unreadCBOR", prepare: fillConfigMaps(2000, 2000), run: unread("application/cbor, application/json;q=0.5", 100), keeps: 16 << 20},
		{name: "unreadWatches", prepare: fillConfigMaps(100, 2000), run: unreadWatches, keeps: 32 << 20},
		{name: "badCustomResources", prepare: defineWidgets, run: badCustomResources},
		{name: "slowBodies", run: slowBodies},
		{name: "bigFrames", run: bigFrames},
		{name: "handshakes", run: handshakes},
		{name: "slowHeaders", run: slowHeaders},
		{name: "idleConnections", run: idleConnections},
		{name: "manyContainers", run: manyContainers},
		{name: "bigConfigMaps", run: bigConfigMaps, keeps: 48 << 20},
		{name: "unreadLists", prepare: fillConfigMaps(2000, 2000), run: unread("application/json", 400), keeps: 16 << 20},
		{name: "unreadTables", prepare: fillConfigMaps(2000, 2000), run: unread("application/json;as=Table;v=v1;g=meta.k8s.io", 100), keeps: 16 << 20},
		{name: "oldLists", prepare: fillHistory, run: oldLists, keeps: 48 << 20},
		{name: "wideApply", run: wideApply, keeps: 32 << 20},
		{name: "bigWrites", run: bigWrites},
		{name: "unreadYAML", prepare: fillConfigMaps(2000, 2000), run: unread("application/yaml", 100), keeps: 16 << 20},
		{name: "growingPatches", prepare: fillConfigMaps(8, 100), run: growingPatches, keeps: 32 << 20},
		{name: "heldBodies", run: heldBodies},
		{name: "rapidReset", prepare: fillConfigMaps(500, 200), run: rapidReset},
	}
}

// smallRequests is a user who sends more than its share of cheap requests.
func smallRequests(ctx context.Context, b *battle) {
	b.flood(ctx, "attacker", 64, func(client, i int) shot {
		path := attacked + "/configmaps"
		name := fmt.Sprintf("s-%d-%d", client, i/4)
		switch i % 4 {
		case 0:
			return shot{method: http.MethodPost, path: path, body: fmt.Appendf(nil, `{"metadata":{"name":%q},"data":{"a":"b"}}`, name)}
		case 1:
			return shot{method: http.MethodGet, path: path + "/" + name}
		case 2:
			return shot{method: http.MethodGet, path: path}
		}
		return shot{method: http.MethodDelete, path: path + "/" + name}
	})
}

// strangers are clients without credentials.
func strangers(ctx context.Context, b *battle) {
	paths := []string{"/api/v1/secrets", "/version", "/openapi/v2", "/apis", attacked + "/configmaps"}
	b.flood(ctx, "", 64, func(_, i int) shot {
		s := shot{method: http.MethodGet, path: paths[i%len(paths)]}
		if i%7 == 0 {
			s.method, s.body = http.MethodPost, bytes.Repeat([]byte("x"), 1<<20)
		}
		return s
	})
}

// continueTokens read page after page while the objects change.
func continueTokens(ctx context.Context, b *battle) {
	config, err := b.server.config("attacker")
	if err != nil {
		b.answers.count(err.Error())
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		crowd(16, func(i int) {
			c, err := newClient(config, true)
			if err != nil {
				b.answers.count(err.Error())
				return
			}
			defer c.CloseIdleConnections()
			next := ""
			for ctx.Err() == nil {
				var page struct{ Metadata struct{ Continue string } }
				answer := b.shoot(ctx, c, config.Host, shot{method: http.MethodGet, path: fmt.Sprintf("%s/configmaps?limit=1&continue=%s", attacked, next)})
				_ = json.Unmarshal(answer, &page) // starts again with the first page
				next = page.Metadata.Continue
			}
		})
	})
	all.Go(func() {
		b.flood(ctx, "attacker", 4, func(client, i int) shot {
			return shot{
				method: http.MethodPatch, path: fmt.Sprintf("%s/configmaps/c%05d", attacked, client*100+i%100), contentType: "application/merge-patch+json",
				body: fmt.Appendf(nil, `{"data":{"i":"%d"}}`, i),
			}
		})
	})
	all.Wait()
}

// fillBindings creates the access rules of a large installation.
func fillBindings(ctx context.Context, b *battle) error {
	const group = "rbac.authorization.k8s.io"
	err := b.fill(ctx, "/apis/"+group+"/v1/namespaces/default/rolebindings", 5000*quantity(), func(i int) any {
		return named(fmt.Sprintf("binding-%05d", i), map[string]any{
			"subjects": []any{map[string]any{"kind": "User", "apiGroup": group, "name": fmt.Sprintf("user-%d", i)}},
			"roleRef":  map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": "view"},
		})
	})
	if err != nil {
		return err
	}
	_, err = b.server.do(ctx, http.MethodPost, "/apis/"+group+"/v1/namespaces/attack/roles", named("empty", nil))
	return err
}

// roleChurn repeatedly changes a role without rules.
func roleChurn(ctx context.Context, b *battle) {
	b.flood(ctx, "attacker", 4, func(client, i int) shot {
		return shot{
			method: http.MethodPatch, path: "/apis/rbac.authorization.k8s.io/v1/namespaces/attack/roles/empty", contentType: "application/merge-patch+json",
			body: fmt.Appendf(nil, `{"metadata":{"annotations":{"client-%d":"%d"}}}`, client, i),
		}
	})
}
