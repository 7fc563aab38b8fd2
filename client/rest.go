package client

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	jsonType     = runtime.ContentTypeJSON
	protobufType = runtime.ContentTypeProtobuf
	// The values of Accept, the preferred type first.
	acceptProtobuf = protobufType + "," + jsonType
	acceptMetadata = protobufType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		jsonType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + jsonType
	acceptMetadataList = protobufType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
		jsonType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + jsonType
)

// RESTClientFor returns a client for requests of one's own about kinds of the group and version of
// gvk. Error responses are returned as errors of k8s.io/apimachinery/pkg/api/errors; other
// responses are bytes, from DoRaw and Stream, because the client decodes no object. contentType is
// the media type to accept, JSON if empty; if it is protobuf, the server may still respond with
// JSON.
//
// Unlike in client-go, a client whose cfg has neither QPS nor RateLimiter does not throttle itself:
// the server's priority and fairness does that better.
func RESTClientFor(gvk schema.GroupVersionKind, cfg *rest.Config, hc *http.Client, contentType string) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	gv := gvk.GroupVersion()
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	cfg.ContentType = contentType
	cfg.AcceptContentTypes = ""
	if contentType == protobufType {
		cfg.AcceptContentTypes = acceptProtobuf
	}
	cfg.NegotiatedSerializer = statusCodec()
	if hc == nil {
		return rest.RESTClientFor(cfg)
	}
	return rest.RESTClientForConfigAndClient(cfg, hc)
}

// statusCodec decodes responses without an object. It never changes.
var statusCodec = sync.OnceValue(func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
})

// A resource is where the objects of a kind are.
type resource struct {
	rest.Interface
	name       string // plural
	namespaced bool
}

// resources remembers the resources that have been used.
type resources struct {
	cfg    *rest.Config
	hc     *http.Client
	mapper meta.RESTMapper

	mu struct {
		sync.RWMutex
		kinds   map[schema.GroupVersionKind]*resource
		clients map[schema.GroupVersion]rest.Interface
	}
}

// of returns the resource of a kind. It asks the server, if need be, without a lock.
func (r *resources) of(ctx context.Context, gvk schema.GroupVersionKind) (*resource, error) {
	r.mu.RLock()
	known, client := r.mu.kinds[gvk], r.mu.clients[gvk.GroupVersion()]
	r.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	mapping, err := meta.ToRESTMapperWithContext(r.mapper).RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if client == nil {
		if client, err = RESTClientFor(gvk, r.cfg, r.hc, jsonType); err != nil {
			return nil, err
		}
	}
	made := &resource{
		Interface:  client,
		name:       mapping.Resource.Resource,
		namespaced: mapping.Scope.Name() != meta.RESTScopeNameRoot,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.kinds == nil {
		r.mu.kinds, r.mu.clients = map[schema.GroupVersionKind]*resource{}, map[schema.GroupVersion]rest.Interface{}
	}
	r.mu.kinds[gvk], r.mu.clients[gvk.GroupVersion()] = made, client
	return made, nil
}
