package overload

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http2"
)

// unread are clients that request a list and do not read it.
func unread(accept string, n int) func(context.Context, *battle) {
	return func(ctx context.Context, b *battle) {
		dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "attacker", "http/1.1", true) }
		b.hold(ctx, n, dial, func(ctx context.Context, conn net.Conn) error {
			if _, err := fmt.Fprintf(conn, "GET %s/configmaps HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", attacked, accept); err != nil {
				return err
			}
			return silence(ctx, conn)
		})
	}
}

// unreadWatches are clients with closed windows, on connections with many watches each, of objects
// that others change.
func unreadWatches(ctx context.Context, b *battle) {
	const connections, each = 10, 200
	dial := func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, "attacker", "h2", true) }
	var all sync.WaitGroup
	all.Go(func() {
		b.hold(ctx, connections*quantity(), dial, func(ctx context.Context, conn net.Conn) error {
			f, err := b.newFrames(conn, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			if err != nil {
				return err
			}
			for range each {
				if _, err := f.ask(http.MethodGet, attacked+"/configmaps?watch=1", true); err != nil {
					return err
				}
			}
			return silence(ctx, conn)
		})
	})
	all.Go(func() {
		b.flood(ctx, "attacker", 2, func(client, i int) shot {
			return shot{
				method: http.MethodPatch, path: fmt.Sprintf("%s/configmaps/c%05d", attacked, client), contentType: "application/merge-patch+json",
				body: fmt.Appendf(nil, `{"data":{"i":"%d"}}`, i),
			}
		})
	})
	all.Wait()
}

// fillHistory creates a history that is far longer than the present objects.
func fillHistory(ctx context.Context, b *battle) error {
	const objects, size = 4, 500_000
	if err := fillConfigMaps(objects, 100)(ctx, b); err != nil {
		return err
	}
	list, err := b.server.do(ctx, http.MethodGet, attacked+"/configmaps?limit=1", nil)
	if err != nil {
		return err
	}
	var meta struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(list, &meta); err != nil {
		return err
	}
	b.old = meta.Metadata.ResourceVersion
	for i := range 200 * quantity() {
		patch := map[string]any{"data": map[string]any{"text": strings.Repeat(string(rune('a'+i%26)), size)}}
		if _, err := b.server.do(ctx, http.MethodPatch, fmt.Sprintf("%s/configmaps/c%05d", attacked, i%objects), patch); err != nil {
			return err
		}
	}
	return nil
}

// oldLists request an old revision, one object at a time.
func oldLists(ctx context.Context, b *battle) {
	path := attacked + "/configmaps?resourceVersionMatch=Exact&limit=1&resourceVersion=" + b.old
	b.flood(ctx, "attacker", 8, func(int, int) shot { return shot{method: http.MethodGet, path: path} })
}
