package controller_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// From an event to the request that it causes: the span of the reconcile links to that of the
// event, and is the parent of that of the request, which tells the server.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		cfg, told := server.Config(), ""
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					told = r.Header.Get("traceparent")
				}
				return next.RoundTrip(r)
			})
		})
		m, err := manager.New(cfg, manager.Options{TracerProvider: provider, Logger: (&logLines{}).logger()})
		if err != nil {
			t.Fatal(err)
		}
		err = ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(ctrl.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, m.GetClient().Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}})
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		<-m.Elected()
		time.Sleep(time.Second)
		c, err := client.New(server.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		if err := c.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}

		byName := map[string]tracetest.SpanStub{}
		for _, s := range spans.GetSpans() {
			byName[s.Name] = s
		}
		event, reconcile, write := byName["Create"], byName["Reconcile configmap"], byName["POST /api/v1/namespaces/default/secrets"]
		if attrs := attribute.NewSet(event.Attributes...); !has(attrs, "k8s.object.resource_version", obj.ResourceVersion) || !has(attrs, "k8s.object.uid", string(obj.UID)) {
			t.Errorf("the event: %v", event.Attributes)
		}
		if len(reconcile.Links) != 1 || !reconcile.Links[0].SpanContext.Equal(event.SpanContext) {
			t.Errorf("the reconcile is linked to %v, the event is %v", reconcile.Links, event.SpanContext)
		}
		if !write.Parent.Equal(reconcile.SpanContext) {
			t.Errorf("the parent of the request is %v, the reconcile is %v", write.Parent, reconcile.SpanContext)
		}
		if want := write.SpanContext.TraceID().String() + "-" + write.SpanContext.SpanID().String(); !strings.Contains(told, want) {
			t.Errorf("the server receives traceparent %q, want %s", told, want)
		}
	})
}

func has(s attribute.Set, key, value string) bool {
	v, ok := s.Value(attribute.Key(key))
	return ok && v.AsString() == value
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
func (roundTripper) CloseIdleConnections()                               {} // which client-go looks for
