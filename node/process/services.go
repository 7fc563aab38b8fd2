package process

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/proxy"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// retryListen is the time after which the proxy tries again to listen at an address.
const retryListen = 30 * time.Second

// naming is the request to update the names of Services in /etc/hosts of containers. No Service has
// this name.
var naming = handler.Request{NamespacedName: types.NamespacedName{Name: "*"}}

// services is the Reconciler of Services: it listens at their addresses, as kube-proxy does for
// those of other nodes, and passes changes on to the pods.
type services struct {
	pods   *pods
	node   string
	client client.Client
	events record.EventRecorder
	proxy  *proxy.Proxy
}

// addServices adds the proxy to a manager.
func (p *pods) addServices(m manager.Manager) error {
	s := &services{pods: p, node: p.options.Name, client: m.GetClient(), events: m.GetEventRecorderFor("kube-proxy"), proxy: p.proxy}
	return controller.NewControllerManagedBy(m).Named("process-services").
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []handler.Request {
			return []handler.Request{handler.RequestFor(o), naming}
		})).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf)).
		Complete(s)
}

// explained is why the proxy cannot listen, with what helps.
func explained(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err.Error() + " (use a port above 1023, or permit lower ones to all users with sysctl net.ipv4.ip_unprivileged_port_start)"
	case errors.Is(err, proxy.ErrAddress):
		return err.Error() + " (create the Service again in a store whose --service-cluster-ip-range is in 127.0.0.0/8)"
	}
	return err.Error()
}

// serviceOf returns the requests for the Service of a slice.
func serviceOf(_ context.Context, slice client.Object) []handler.Request {
	name := slice.GetLabels()[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	return []handler.Request{{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: name}}, naming}
}

// Reconcile implements controller.Reconciler.
func (s *services) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	if req == naming {
		return controller.Result{}, s.pods.rename(ctx)
	}
	var service corev1.Service
	if err := s.client.Get(ctx, req.NamespacedName, &service, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return controller.Result{}, err
		}
		if n := s.pods.network; n != nil {
			_ = n.proxy.Set(req.NamespacedName, nil)
		}
		return controller.Result{}, s.proxy.Set(req.NamespacedName, nil)
	}
	var slices discoveryv1.EndpointSliceList
	err := s.client.List(ctx, &slices, client.InNamespace(req.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: req.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return controller.Result{}, err
	}
	frontends := proxy.Frontends(&service, slices.Items, s.node, netip.MustParseAddr(nodeIP))
	var inside error
	if n := s.pods.network; n != nil {
		own := n.frontends(frontends)
		if req.NamespacedName == kubernetesService {
			own = n.apiServer(&service, s.pods.options.Server(ctx))
		}
		inside = n.proxy.Set(req.NamespacedName, own)
	}
	err = s.proxy.Set(req.NamespacedName, frontends)
	if err == nil && inside == nil {
		return controller.Result{}, nil
	}
	// Containers reach the server at its own address, so that the Service kubernetes is not missed.
	if err = errors.Join(inside, err); req.NamespacedName != kubernetesService {
		whom := ""
		if s.pods.network != nil && inside == nil {
			whom = " for clients on this machine"
		}
		s.events.Eventf(&service, corev1.EventTypeWarning, "FailedToListen", "Node %s cannot listen at an address of the Service%s: %s", s.node, whom, explained(err))
	}
	return controller.Result{RequeueAfter: retryListen}, nil
}
