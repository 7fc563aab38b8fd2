package aggregate

import (
	"context"
	"fmt"
	"net"

	"github.com/kapok-dev/kapok/internal/forward"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// insidePriority is the priority of a group version that a handler in this process serves: that of
// extension servers such as metrics-server.
const insidePriority = 100

// An inside is a group version that a handler in this process serves. Its discovery and OpenAPI
// documents do not change, so they are read once.
type inside struct {
	*Remote
	dialer *forward.Dialer
}

// newInside reads the documents of a handler. With an error, the result owns the connections, too.
func newInside(ctx context.Context, gv schema.GroupVersion, connect func(context.Context) (net.Conn, error)) (*inside, error) {
	in := &inside{dialer: forward.NewDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) })}
	b := &backend{
		key: backendKey{name: gv.String()}, scheme: "http",
		resolver: func(string, string, int32) (string, error) { return "inside", nil },
	}
	b.Transports = in.dialer.Transports(nil)
	versions := []schema.GroupVersion{gv}
	described, err := b.describe(ctx, versions, nil)
	if err != nil {
		return in, fmt.Errorf("handler of %s: %w", gv, err)
	}
	in.Remote = &Remote{
		GroupVersion: gv, GroupPriority: insidePriority, VersionPriority: insidePriority,
		Discovery: described.of(gv), available: true, backend: b, documents: b.documents(ctx, versions, nil),
	}
	return in, nil
}
